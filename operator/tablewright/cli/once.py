"""Commands whose options may be given once, unless they are lists. Of another that is given twice, the last would count
and the first be silently forgotten.
"""

from typing import Any

from typer.core import TyperCommand


class OnceEach(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for option in order:
            if option.param_type_name == "option" and not option.multiple and order.count(option) > 1:
                ctx.fail(f"{option.opts[-1]} is given {order.count(option)} times: give it once")
        return super().parse_args(ctx, args)
