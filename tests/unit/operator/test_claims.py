"""Who claims the same table is known at every event, and those whom a change concerns are told of."""

from typing import Any

from tablewright.runtime.claims import Claims

TABLE = "0b5f5c3e-0000-0000-0000-000000000000"


def claim(
    place: str, *, catalog: str = "lake", identifier: str | None = "t", uuid: str | None = None
) -> dict[str, Any]:
    namespace, name = place.split("/")
    spec: dict[str, Any] = {"catalogRef": {"name": catalog}}
    if identifier is not None:
        spec["identifier"] = {"namespace": "db", "name": identifier}
    status = {} if uuid is None else {"identity": {"uuid": uuid}}
    return {"metadata": {"namespace": namespace, "name": name}, "spec": spec, "status": status}


def test_objects_that_name_the_same_table_are_rivals() -> None:
    claims = Claims()
    assert claims.put(claim("sales/a")) == []
    assert claims.put(claim("sales/b")) == [("sales", "a")]
    assert claims.rivals("sales", "a") == [("sales", "b")]
    claims.put(claim("sales/c", identifier="other"))
    claims.put(claim("web/d"))
    assert claims.rivals("sales", "a") == [("sales", "b")]


def test_the_default_name_is_a_claim_like_one_that_is_written() -> None:
    claims = Claims()
    claims.put({"metadata": {"namespace": "db", "name": "my-t"}, "spec": {"catalogRef": {"name": "lake"}}})
    assert claims.put(claim("db/other", identifier="my_t")) == [("db", "my-t")]


def test_a_table_that_turns_out_to_be_the_same_is_told_of_to_whom_it_concerns() -> None:
    claims = Claims()
    claims.put(claim("sales/a", uuid=TABLE))
    assert claims.put(claim("web/b", catalog="theirs")) == []
    assert claims.put(claim("web/b", catalog="theirs", uuid=TABLE)) == [("sales", "a")]
    assert claims.put(claim("web/b", catalog="theirs", uuid=TABLE)) == [], "that is no news any more"


def test_who_may_have_the_table_now_is_told_of_when_an_object_goes() -> None:
    claims = Claims()
    claims.put(claim("sales/a", uuid=TABLE))
    claims.put(claim("sales/b"))
    claims.put(claim("web/c", catalog="theirs", uuid=TABLE))
    claims.put(claim("web/d", identifier="other"))
    assert claims.remove(claim("sales/a")) == [("sales", "b"), ("web", "c")]
    assert claims.rivals("web", "c") == []


def test_an_object_that_names_no_table_claims_none() -> None:
    claims = Claims()
    assert claims.put({"metadata": {"namespace": "sales", "name": "a"}, "spec": {"catalogRef": "lake"}}) == []
    assert claims.rivals("sales", "a") == []
