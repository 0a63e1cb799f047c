"use strict";
(() => {
  const PAGE = 100;
  const data = JSON.parse(document.getElementById("checks").textContent);
  const text = (index) => data.s[index];
  const fold = (string) => string.toLowerCase();
  const number = (value, noun) => `${value.toLocaleString("en")} ${noun}${value === 1 ? "" : "s"}`;

  const element = (tag, className, ...children) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...children);
    return made;
  };

  const checks = data.r.map(([id, clauses, verdict, title, place, evidence, reason, statistics, anchor]) => ({
    id, clauses, verdict, anchor,
    title: text(title), place: text(place), evidence: text(evidence), reason: text(reason),
    statistics: statistics || [],
  }));
  for (const check of checks) {
    check.words = fold([check.id, check.title, check.place, check.evidence, check.reason].join("\n"));
  }

  const lines = [...document.querySelectorAll("tr.clause")].map((row) => ({
    row, checks: [], found: [], limit: PAGE, panel: null, button: null,
    words: fold(`${row.cells[0].textContent}\n${row.cells[1].textContent}\n${row.dataset.text}`),
  }));
  const byIndex = new Map(lines.map((line) => [Number(line.row.dataset.index), line]));
  for (const check of checks) {
    for (const clause of check.clauses) byIndex.get(clause).checks.push(check);
  }

  const badge = (verdict) => element("span", `badge ${verdict.toLowerCase()}`, verdict);

  const statisticLine = ([method, measured, conditions, gates]) => {
    const beside = gates ? "" : " (shown beside, does not decide)";
    const value = element("span", "num", measured);
    const soft = element("span", "soft", text(conditions) + beside);
    return element("p", gates ? "statistic" : "statistic aside",
      element("b", "", text(method)), " ", value, " ", soft);
  };

  const checkItem = (check) => {
    const name = element("div", "name", element("code", "", check.id),
      element("span", "soft", check.place));
    const what = element("div", "what", element("p", "", check.title, ": ", check.reason));
    what.append(...check.statistics.map(statisticLine));
    if (check.anchor) {
      const link = element("a", "", "see the finding");
      link.href = `#${check.anchor}`;
      what.append(link);
    }
    return element("li", "", badge(check.verdict), name,
      element("span", "how soft", check.evidence), what);
  };

  const fill = (line) => {
    const cell = line.panel.cells[0];
    const list = element("ul", "list", ...line.found.slice(0, line.limit).map(checkItem));
    const parts = [list];
    if (line.row.dataset.text) parts.unshift(element("p", "rule", line.row.dataset.text));
    const hidden = line.found.length - line.limit;
    if (hidden > 0) {
      const more = element("button", "copy", `Show ${Math.min(PAGE, hidden)} of ${number(hidden, "more check")}`);
      more.type = "button";
      more.addEventListener("click", () => {
        line.limit += PAGE;
        fill(line);
        line.panel.querySelectorAll("li")[line.limit - PAGE].scrollIntoView({ block: "nearest" });
      });
      parts.push(more);
    }
    cell.replaceChildren(...parts);
  };

  const toggle = (line, open) => {
    if (!line.button) return;
    if (!line.panel) {
      const cell = element("td");
      cell.colSpan = 6;
      line.panel = element("tr", "panel", cell);
      line.panel.id = `checks-${line.row.dataset.index}`;
      line.button.setAttribute("aria-controls", line.panel.id);
      line.row.after(line.panel);
    }
    line.panel.hidden = !open;
    line.button.setAttribute("aria-expanded", String(open));
    if (open) fill(line);
  };
  const isOpen = (line) => line.panel !== null && !line.panel.hidden;

  for (const line of lines) {
    if (!line.checks.length && !line.row.dataset.text) continue;
    const head = line.row.cells[0];
    line.button = element("button", "unfold", head.textContent);
    line.button.type = "button";
    line.button.setAttribute("aria-expanded", "false");
    head.replaceChildren(line.button);
    line.row.classList.add("opens");
    line.row.addEventListener("click", () => {
      if (!String(getSelection())) toggle(line, !isOpen(line));
    });
  }

  const form = document.querySelector("form.filter");
  const query = document.getElementById("query");
  const shown = document.getElementById("shown");
  const chips = [...form.querySelectorAll(".chip")];
  const everyClause = lines.length;

  const search = () => {
    const wanted = fold(query.value).split(/\s+/).filter(Boolean);
    const verdicts = new Set(chips.filter((chip) => chip.getAttribute("aria-pressed") === "true")
      .map((chip) => chip.dataset.verdict));
    const has = (words) => wanted.every((word) => words.includes(word));
    const hits = new Set(checks.filter((check) => has(check.words)));
    const counted = new Set();
    let visible = 0;
    for (const line of lines) {
      const own = has(line.words);
      line.found = line.checks.filter((check) =>
        (own || hits.has(check)) && (!verdicts.size || verdicts.has(check.verdict)));
      const untested = !line.row.querySelector(".badge:not(.untested)");
      const show = line.found.length > 0 ||
        (own && (!verdicts.size || (untested && verdicts.has("untested"))));
      line.row.hidden = !show;
      line.limit = PAGE;
      if (show) visible += 1;
      line.found.forEach((check) => counted.add(check));
      if (line.panel) {
        const open = line.button.getAttribute("aria-expanded") === "true";
        line.panel.hidden = !show || !open;
        if (show && open) fill(line);
      }
    }
    for (const heading of document.querySelectorAll("tr.group")) {
      const rows = [...heading.parentElement.querySelectorAll("tr.clause")];
      heading.hidden = rows.every((row) => row.hidden);
    }
    document.querySelector(".nothing").hidden = visible > 0 || everyClause === 0;
    const narrowed = wanted.length > 0 || verdicts.size > 0;
    shown.textContent = `${narrowed ? `${visible.toLocaleString("en")} of ` : ""}` +
      `${number(everyClause, "clause")}, ${number(counted.size, "check")}`;
  };

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  query.addEventListener("input", search);
  query.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      query.value = "";
      search();
    }
  });
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
      search();
    });
  }
  search();

  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const line = lines.find((candidate) => candidate.row === target);
    if (line) toggle(line, true);
    if (target instanceof HTMLDetailsElement) target.open = true;
  };
  addEventListener("hashchange", follow);
  follow();

  const copied = async (source) => {
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      return document.execCommand("copy");
    }
    return true;
  };
  for (const button of document.querySelectorAll(".reproduce .copy")) {
    button.hidden = false;
    button.setAttribute("aria-live", "polite");
    button.addEventListener("click", async () => {
      button.textContent = await copied(button.previousElementSibling) ? "Copied" : "Selected";
      setTimeout(() => { button.textContent = "Copy"; }, 1600);
    });
  }
})();
