"""What the page says of a run's record (src/types.ts) is what api/run.schema.json says: every member there is in the
schema, with a type of that kind, and the members that a page reads of a free table are, too. Needs no Node.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Types that are described beside the record, and where.
ELSEWHERE = {"CollectiveRow": ("collectives", "/properties/results/items"), "PairMatrix": ("collectives", "/properties/pairs")}
KINDS = {"string": {"string"}, "number": {"number", "integer"}, "boolean": {"boolean"}}
# What pages call a part of the record that types.ts leaves as a free table.
TABLES = {"environment": "environment", "env": "environment", "limits": "limits", "data": "data", "host": "hosts"}


class Types:
    """The interfaces of types.ts: {name: {member: type}}; a type is a list of choices."""

    def __init__(self, text: str):
        code = re.sub(r"//.*", "", text)
        self.interfaces = {}
        for match in re.finditer(r"interface (\w+)[^{]*", code):
            self.tokens = re.findall(r"'[^']*'|[\w]+|[^\s\w]", code[match.end() :])
            self.interfaces[match[1]] = self.members()

    def take(self, wanted: str | None = None) -> str:
        token = self.tokens.pop(0)
        if wanted and token != wanted:
            raise SystemExit(f"types.ts: expected '{wanted}', got '{token}' before '{' '.join(self.tokens[:8])}'")
        return token

    def members(self) -> dict:
        members = {}
        self.take("{")
        while self.tokens[0] != "}":
            name = self.take()
            if self.tokens[0] == "?":
                self.take()
            self.take(":")
            members[name] = self.union()
            if self.tokens[0] in (";", ","):
                self.take()
        self.take("}")
        return members

    def union(self) -> list:
        choices = [self.one()]
        while self.tokens[0] == "|":
            self.take()
            choices.append(self.one())
        return choices

    def one(self):
        if self.tokens[0] == "{":
            found = self.members()
        elif self.tokens[0] == "(":
            self.take()
            found = self.union()  # of one list's elements
            self.take(")")
        elif self.tokens[0] == "[":
            found = ("list", [])
            while self.take() != "]":
                found[1].extend(self.union())
        else:
            found = self.take()
            if found == "Record":
                self.take("<")
                self.union()
                self.take(",")
                found = ("table", self.union())
                self.take(">")
        while self.tokens[:2] == ["[", "]"]:
            self.tokens = self.tokens[2:]
            found = ("list", found if isinstance(found, list) else [found])
        return found


class Check:
    def __init__(self, root: pathlib.Path):
        self.types = Types((root / "src/types.ts").read_text()).interfaces
        self.schemas = {name: json.loads((root.parent / f"api/{name}.schema.json").read_text()) for name in ("run", "collectives")}
        self.complaints = []

    def at(self, document: str, pointer: str) -> dict:
        found = self.schemas[document]
        for part in pointer.strip("/").split("/"):
            found = found[part]
        return found

    def choices(self, document: str, schema: dict) -> list[dict]:
        if "$ref" in schema:
            return self.choices(document, self.at(document, schema["$ref"].removeprefix("#")))
        if "oneOf" in schema:
            return [choice for one in schema["oneOf"] for choice in self.choices(document, one)]
        return [schema]

    def kinds(self, schemas: list[dict]) -> set[str]:
        found = set()
        for schema in schemas:
            said = schema.get("type", [])
            found |= {said} if isinstance(said, str) else set(said)
            if "const" in schema or "enum" in schema:
                values = schema.get("enum", [schema.get("const")])
                found |= {"string" if isinstance(value, str) else "null" if value is None else "number" for value in values}
        return found

    def type(self, path: str, said: list, document: str, schema: dict) -> None:
        schemas = self.choices(document, schema)
        kinds = self.kinds(schemas)
        for one in said:
            if one in ("Json", "undefined", "null") or not kinds:
                continue
            if isinstance(one, str) and one in KINDS:
                if not kinds & KINDS[one]:
                    self.complaints.append(f"{path} is no {one} by the schema: {sorted(kinds)}")
            elif isinstance(one, tuple) and one[0] == "list":
                for items in [choice["items"] for choice in schemas if "items" in choice]:
                    self.type(path + "[]", one[1], document, items)
                if "array" not in kinds:
                    self.complaints.append(f"{path} is no list by the schema: {sorted(kinds)}")
            elif isinstance(one, tuple):
                if "object" not in kinds:
                    self.complaints.append(f"{path} is no table by the schema: {sorted(kinds)}")
            elif isinstance(one, str) and one in ELSEWHERE:
                other, pointer = ELSEWHERE[one]
                self.members(path, self.types[one], other, self.choices(other, self.at(other, pointer)))
            elif isinstance(one, dict) or one in self.types:
                self.members(path, one if isinstance(one, dict) else self.types[one], document, schemas)

    def members(self, path: str, members: dict, document: str, schemas: list[dict]) -> None:
        known = {name: schema for one in schemas for name, schema in one.get("properties", {}).items()}
        for name, said in members.items():
            if name in known:
                self.type(f"{path}.{name}", said, document, known[name])
            else:
                self.complaints.append(f"{path}.{name} is not in api/{document}.schema.json")

    def reads(self, root: pathlib.Path) -> int:
        count = 0
        for page in sorted((root / "src/pages").glob("*.tsx")):
            for table, name in re.findall(rf"\b({'|'.join(TABLES)})\??\.?\['(\w+)'\]", page.read_text()):
                count += 1
                schemas = self.choices("run", self.at("run", f"/properties/{TABLES[table]}"))
                schemas = [one for schema in schemas for one in self.choices("run", schema.get("items", schema))]
                if not any(name in schema.get("properties", {}) for schema in schemas):
                    self.complaints.append(f"{page.name} reads {TABLES[table]}.{name}, which the schema does not have")
        return count


def main() -> int:
    check = Check(ROOT)
    own = check.types["RunRecord"] | {"goal": ["Goal"], "failure": ["Failure"]}
    check.members("RunRecord", own, "run", [check.schemas["run"]])
    if check.reads(ROOT) < 10:
        check.complaints.append("hardly any page reads environment, limits, data or hosts: are they called otherwise?")
    if check.complaints:
        print("dashboard/src and api/ differ:", *check.complaints, sep="\n  ")
    return 1 if check.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
