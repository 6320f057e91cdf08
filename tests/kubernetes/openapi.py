"""Objects of Kubernetes against its own OpenAPI document: types, required members, enumerations, unknown members.

    errors(objects) -> ["Job.spec.template: unknown member foo", ...]
"""

import json
import lzma
import pathlib
import re

DOCUMENT = pathlib.Path(__file__).with_name("kubernetes-openapi-v1.35.0.json.xz")
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict, "number": (int, float)}
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
QUANTITY_TEXT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+)?")


class Document:
    def __init__(self, path=DOCUMENT):
        with lzma.open(path) as file:
            self.definitions = json.load(file)["definitions"]
        self.kinds = {
            (kind["group"], kind["version"], kind["kind"]): name
            for name, definition in self.definitions.items()
            for kind in definition.get("x-kubernetes-group-version-kind", [])
        }

    def errors(self, objects):
        """Of all objects; those in a List, too."""
        found = []
        for one in objects:
            if one.get("kind") == "List":
                found += self.errors(one["items"])
                continue
            group, _, version = str(one.get("apiVersion", "")).rpartition("/")
            name = self.kinds.get((group, version, one.get("kind")))
            if name is None:
                found.append(f"{one.get('apiVersion')} {one.get('kind')}: unknown kind")
            else:
                self.walk(one, {"$ref": "#/definitions/" + name}, one["kind"], found)
        return found

    def errors_of(self, value, name):
        """Of a part: errors_of(template, "io.k8s.api.core.v1.PodTemplateSpec")."""
        found = []
        self.walk(value, {"$ref": "#/definitions/" + name}, name.rpartition(".")[2], found)
        return found

    def walk(self, value, schema, path, found):
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name == QUANTITY:
                if isinstance(value, bool) or not QUANTITY_TEXT.fullmatch(str(value)):
                    found.append(f"{path}: expected a quantity, got {value!r}")
                return
            if name == INT_OR_STRING:
                if isinstance(value, bool) or not isinstance(value, (int, str)):
                    found.append(f"{path}: expected a number or text, got {value!r}")
                return
            schema = self.definitions[name]
        if value is None:
            found.append(f"{path}: null")
            return
        kind = schema.get("type")
        wrong_bool = isinstance(value, bool) and kind in ("integer", "number")
        if kind and (not isinstance(value, TYPES[kind]) or wrong_bool):
            found.append(f"{path}: expected {kind}, got {value!r}")
            return
        if value not in schema.get("enum", [value]):
            found.append(f"{path}: expected one of {schema['enum']}, got {value!r}")
        if isinstance(value, list):
            for index, item in enumerate(value):
                self.walk(item, schema.get("items", {}), f"{path}[{index}]", found)
        elif isinstance(value, dict):
            self.walk_members(value, schema, path, found)

    def walk_members(self, value, schema, path, found):
        members, others = schema.get("properties", {}), schema.get("additionalProperties")
        found += [f"{path}: no {name}" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            if name in members:
                self.walk(item, members[name], f"{path}.{name}", found)
            elif isinstance(others, dict):
                self.walk(item, others, f"{path}.{name}", found)
            elif members:
                found.append(f"{path}: unknown member {name}")


def pod_templates(value):
    """All templates of pods within, wherever they are: those of kinds that the document does not know, too."""
    if isinstance(value, dict):
        if isinstance(value.get("spec"), dict) and "containers" in value["spec"] and value.get("kind") != "Pod":
            yield value
        for item in value.values():
            yield from pod_templates(item)
    elif isinstance(value, list):
        for item in value:
            yield from pod_templates(item)
