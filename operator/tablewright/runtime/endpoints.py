"""/healthz, /readyz and /metrics, served from the event loop itself: a loop that is stuck does not answer."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from tablewright.runtime.metrics import Metrics

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Endpoints:
    """`unhealthy` and `unready` name what is wrong, each in a line; nothing is wrong when they name nothing."""

    def __init__(
        self, metrics: Metrics, *, unhealthy: Callable[[], list[str]], unready: Callable[[], list[str]]
    ) -> None:
        application = web.Application()
        application.router.add_get("/healthz", _answer(unhealthy))
        application.router.add_get("/readyz", _answer(unready))

        async def tell(_: web.Request) -> web.Response:
            return web.Response(body=metrics.text(), headers={"Content-Type": _TEXT})

        application.router.add_get("/metrics", tell)
        self._runner = web.AppRunner(application, access_log=None)

    async def start(self, host: str, port: int) -> int:
        """Returns the port, which is a free one if 0 was asked for."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        address: tuple[str, int] = self._runner.addresses[0]
        return address[1]

    async def stop(self) -> None:
        await self._runner.cleanup()


def _answer(problems: Callable[[], list[str]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        found = problems()
        return web.Response(text="".join(f"{line}\n" for line in found or ["ok"]), status=503 if found else 200)

    return answer
