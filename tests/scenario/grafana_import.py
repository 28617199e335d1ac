"""The dashboards import into any Grafana without an edit: nothing in them names a data source of ours,
whichever way they come in; each panel has a unit, and what has a limit shows it; links keep the time and
the variables; what is exported is in a panel of logs, with a link to its trace."""
import glob
import json
import os
import re

import ringtail

DASHBOARDS = os.path.join(ringtail.ROOT, "grafana", "dashboards")
UNITS = {"ops", "percentunit", "s", "short", "bytes", "Bps", "bool", "none"}
OURS = re.compile(r"ringtail-(prometheus|logs|traces)")
LIMITED = {"Lost", "Ledger's residual", "Residuals", "How full the rings are"}


def load():
    found = {}
    for path in sorted(glob.glob(f"{DASHBOARDS}/*.json")):
        with open(path) as file:
            found[os.path.basename(path)] = json.load(file)
    return found


def sources_in(value):
    """Each data source that anything in it names."""
    if isinstance(value, dict):
        if isinstance(value.get("datasource"), dict):
            yield value["datasource"]
        for inner in value.values():
            yield from sources_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from sources_in(inner)


def imported(dashboard, answers):
    """As Grafana does: what was asked for goes in the place of ${NAME}."""
    text = json.dumps({key: value for key, value in dashboard.items() if key != "__inputs"})
    for one in dashboard["__inputs"]:
        text = text.replace(f"${{{one['name']}}}", answers[one["pluginId"]])
    return json.loads(text)


def check_sources(case, name, dashboard):
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    case.check(not OURS.search(json.dumps(dashboard)), f"{name}: no data source is named")
    for source in sources_in(dashboard):
        found = re.fullmatch(r"\$\{(\w+)\}", source["uid"])
        variable = variables.get(found[1]) if found else None
        if not variable or (variable["type"], variable["query"]) != ("datasource", source["type"]):
            case.check(False, f"{name}: a data source is a variable of that type", source)
    inputs = {one["name"]: one for one in dashboard["__inputs"]}
    case.check(inputs and all(one["type"] == "datasource" and one["pluginId"] in
                              {"prometheus", "loki"} for one in inputs.values()),
               f"{name}: an import asks for what everybody has", inputs)
    required = {(one["type"], one["id"]) for one in dashboard["__requires"]}
    case.check(required >= {("panel", one["type"]) for one in dashboard["panels"]} |
               {("datasource", one["pluginId"]) for one in inputs.values()},
               f"{name}: it says what it requires", required)
    whole = imported(dashboard, {"prometheus": "their-metrics", "loki": "their-logs"})
    left = set(re.findall(r"\$\{(DS_\w+)\}", json.dumps(whole)))
    case.check_equal(left, set(), f"{name}: nothing is left to be asked for")
    chosen = {one["current"].get("value") for one in whole["templating"]["list"]
              if one["type"] == "datasource" and "current" in one}
    case.check(chosen and chosen <= {"their-metrics", "their-logs"},
               f"{name}: what was chosen is the variable's value", chosen)
    case.check(dashboard["id"] is None and dashboard["uid"].startswith("ringtail-") and
               dashboard["schemaVersion"] >= 36 and dashboard["title"], f"{name}: its head")


def check_variables(case, name, dashboard):
    """Whatever a query names is a variable of the dashboard, or Grafana's own."""
    names = {one["name"] for one in dashboard["templating"]["list"]}
    used = {variable for panel in dashboard["panels"] for target in panel["targets"]
            for variable in re.findall(r"\$(\w+)", target["expr"]) if variable[:2] != "__"}
    case.check(used <= names, f"{name}: its queries name its variables", used - names)
    if "datasource" in names:
        case.check({"job", "instance"} <= used, f"{name}: job and host are chosen", used)
        without = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]
                   if 'job=~"$job"' not in target["expr"]]
        case.check_equal(without, [], f"{name}: every query asks for that job alone")


def check_panels(case, name, dashboard):
    for panel in dashboard["panels"]:
        defaults = panel["fieldConfig"]["defaults"]
        steps = defaults["thresholds"]["steps"]
        right = defaults["unit"] in UNITS and panel["title"] and panel["description"] and \
            panel["targets"] and steps[0]["value"] is None and \
            (panel["title"] not in LIMITED or len(steps) > 1)
        if not right:
            case.check(False, f"{name}: panel {panel['title']} has a unit and thresholds", defaults)
    ids = [panel["id"] for panel in dashboard["panels"]]
    case.check_equal(len(set(ids)), len(ids), f"{name}: panels have ids")
    link, = dashboard["links"]
    case.check(link["keepTime"] and link["includeVars"], f"{name}: links keep time and variables")
    case.check({"title", "type", "icon", "tooltip", "tags", "asDropdown", "targetBlank"} <= set(link),
               f"{name}: links have what Grafana's schema requires", link)
    wrong = [one for one in dashboard["templating"]["list"] if "current" in one and not {"text", "value"} <= set(one["current"])]
    case.check(not wrong, f"{name}: what a variable is set to has a text and a value", wrong)


def check_logs(case, dashboard):
    logs = [panel for panel in dashboard["panels"] if panel["type"] == "logs"]
    case.check_equal(len(logs), 1, "there is a panel of logs")
    links = [prop["value"] for one in logs[0]["fieldConfig"]["overrides"]
             if one["matcher"]["options"] == "trace_id" for prop in one["properties"]
             if prop["id"] == "links"]
    case.check(links and links[0][0]["internal"]["datasourceUid"] == "${traces}" and
               "${__value.raw}" in links[0][0]["internal"]["query"]["query"],
               "its trace_id leads to the trace", links)


def main(case):
    dashboards = load()
    case.check(len(dashboards) >= 5, "there are dashboards", list(dashboards))
    for name, dashboard in dashboards.items():
        check_sources(case, name, dashboard)
        check_variables(case, name, dashboard)
        check_panels(case, name, dashboard)
    check_logs(case, dashboards["events.json"])


ringtail.run(main)
