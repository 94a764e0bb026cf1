//! Modules depend on each other in one direction: no cycle among the modules of any crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Places with modules that still depend on each other: crate, and module. The list may only become shorter.
const KNOWN: [(&str, &str); 7] = [
    ("relaxcrf-cli", "commands::batch"),
    ("relaxcrf-filter", ""),
    ("relaxcrf-filter", "lattice"),
    ("relaxcrf-io", ""),
    ("relaxcrf-lab", "inputs"),
    ("relaxcrf-lab", "report"),
    ("relaxcrf-stereo", ""),
];

/// A module's path below its crate's root.
type Module = Vec<String>;

/// The sources of a crate: every module with its code, without comments and tests.
struct Sources {
    code: BTreeMap<Module, String>,
    /// Names that a module exports again, and the module where each comes from.
    exported: BTreeMap<(Module, String), Module>,
}

impl Sources {
    fn read(src: &Path) -> Self {
        let mut sources = Self { code: BTreeMap::new(), exported: BTreeMap::new() };
        sources.read_directory(src, &[]);
        let modules: Vec<Module> = sources.code.keys().cloned().collect();
        for module in modules {
            for path in paths(&sources.code[&module], "pub use ")
                .chain(paths(&sources.code[&module], "pub(crate) use "))
            {
                let name = path.last().cloned().unwrap_or_default();
                if let Some(origin) = sources.resolve(&module, &path).filter(|o| o.len() > module.len()) {
                    sources.exported.insert((module.clone(), name), origin);
                }
            }
        }
        sources
    }

    fn read_directory(&mut self, directory: &Path, module: &[String]) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().to_string();
            let mut inner = module.to_vec();
            if path.is_dir() {
                inner.push(name);
                self.read_directory(&path, &inner);
            } else if path.extension().is_some_and(|e| e == "rs") && name != "tests" && name != "main" {
                if name != "mod" && name != "lib" {
                    inner.push(name);
                }
                self.code.insert(inner, code_of(&fs::read_to_string(&path).unwrap()));
            }
        }
    }

    /// The module that a path, seen from `from`, leads to; `None` if it leaves the crate.
    fn resolve(&self, from: &[String], path: &[String]) -> Option<Module> {
        let mut names = path.iter().peekable();
        let mut at: Module = match names.peek()?.as_str() {
            "crate" => {
                names.next();
                Vec::new()
            }
            "self" | "super" => {
                let mut at = from.to_vec();
                while let Some(name) = names.next_if(|n| matches!(n.as_str(), "self" | "super")) {
                    if name == "super" {
                        at.pop();
                    }
                }
                at
            }
            // A module inside this one; anything else is another crate.
            first if self.code.contains_key(&[from, &[first.to_string()]].concat()) => from.to_vec(),
            _ => return None,
        };
        for name in names {
            let inner = [&at[..], std::slice::from_ref(name)].concat();
            if self.code.contains_key(&inner) {
                at = inner;
            } else if let Some(origin) = self.exported.get(&(at.clone(), name.clone())) {
                at.clone_from(origin);
            } else {
                break;
            }
        }
        Some(at)
    }

    /// For every module with modules inside: which of those use which others.
    fn uses(&self) -> BTreeMap<Module, BTreeSet<(String, String)>> {
        let mut edges: BTreeMap<Module, BTreeSet<(String, String)>> = BTreeMap::new();
        for (module, code) in &self.code {
            for path in paths(code, "use ").chain(inline_paths(code)) {
                let Some(target) = self.resolve(module, &path) else { continue };
                let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                // A module and one inside it are no pair of modules side by side.
                if let (Some(from), Some(to)) = (module.get(common), target.get(common)) {
                    edges.entry(module[..common].to_vec()).or_default().insert((from.clone(), to.clone()));
                }
            }
        }
        edges
    }
}

/// Code without comments, tests and the texts in it.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
    let line = |line: &str| {
        // Every second piece between quotes is text.
        let code: String = line.split('"').step_by(2).collect();
        code.split("//").next().unwrap_or("").to_string()
    };
    code.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The paths of all statements that begin with `keyword` at the start of a line.
fn paths<'a>(code: &'a str, keyword: &'a str) -> impl Iterator<Item = Vec<String>> + 'a {
    let statements = code.match_indices(keyword).filter(|(at, _)| {
        let before = code[..*at].rsplit('\n').next().unwrap_or("");
        before.trim().is_empty() || matches!(before.trim(), "pub" | "pub(crate)" | "pub(super)")
    });
    statements.flat_map(move |(at, _)| {
        let rest = &code[at + keyword.len()..];
        let mut found = Vec::new();
        expand(rest.split(';').next().unwrap_or(""), &[], &mut found);
        found
    })
}

/// Writes out `a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`.
fn expand(text: &str, before: &[String], found: &mut Vec<Vec<String>>) {
    let text = text.trim();
    let Some((head, group)) = text.split_once('{') else {
        let text = text.split(" as ").next().unwrap_or("");
        let names = text.split("::").map(|n| n.trim().to_string()).filter(|n| !n.is_empty() && n != "*");
        found.push(before.iter().cloned().chain(names).collect());
        return;
    };
    let head = head.split("::").map(|n| n.trim().to_string()).filter(|n| !n.is_empty());
    let before: Vec<String> = before.iter().cloned().chain(head).collect();
    let group = &group[..group.rfind('}').unwrap_or(group.len())];
    let (mut depth, mut start) = (0, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !group[start..at].trim().is_empty() {
                    expand(&group[start..at], &before, found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Paths such as `crate::a::b` anywhere in the code.
fn inline_paths(code: &str) -> impl Iterator<Item = Vec<String>> + '_ {
    ["crate::", "super::"].into_iter().flat_map(|start| code.match_indices(start)).filter_map(|(at, _)| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let begins = !code[..at].ends_with(is_part);
        let text: String = code[at..].chars().take_while(|&c| is_part(c)).collect();
        begins.then(|| text.split("::").filter(|n| !n.is_empty()).map(String::from).collect())
    })
}

/// Modules that are left when those that use none of the others are taken away again and again.
fn in_cycles(edges: &BTreeSet<(String, String)>) -> BTreeSet<(String, String)> {
    let mut left = edges.clone();
    loop {
        let users: BTreeSet<String> = left.iter().map(|(from, _)| from.clone()).collect();
        let used: BTreeSet<String> = left.iter().map(|(_, to)| to.clone()).collect();
        let before = left.len();
        left.retain(|(from, to)| users.contains(to) && used.contains(from));
        if left.len() == before {
            return left;
        }
    }
}

#[test]
fn modules_depend_on_each_other_without_a_cycle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut found, mut modules, mut uses) = (Vec::new(), 0, 0);
    for entry in fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        let src = path.join("src");
        if !src.is_dir() {
            continue;
        }
        let sources = Sources::read(&src);
        modules += sources.code.len();
        for (parent, edges) in sources.uses() {
            uses += edges.len();
            let (name, place) = (path.file_name().unwrap().to_string_lossy(), parent.join("::"));
            if KNOWN.contains(&(&*name, &*place)) {
                continue;
            }
            let cycles = in_cycles(&edges);
            found.extend(cycles.iter().map(|(from, to)| format!("{name}: in {place}: {from} uses {to}")));
        }
    }
    assert!(found.is_empty(), "modules that depend on each other:\n{}", found.join("\n"));
    assert!(modules > 100 && uses > 150, "{modules} modules with {uses} uses: is the search broken?");
}

#[test]
fn cycle_between_two_modules_is_found() {
    let mut sources = Sources { code: BTreeMap::new(), exported: BTreeMap::new() };
    let texts = [
        ("", "mod a; mod b; mod c; pub use a::{Apple, Apricot as Fruit};"),
        ("a", "use crate::c::{self, Cat};\nuse std::fs;"),
        ("b", "use super::a;\nfn f() { crate::c::g() }"),
        ("c", "use crate::{\n    Apple,\n};"),
    ];
    for (name, text) in texts {
        let module = name.split("::").filter(|n| !n.is_empty()).map(String::from).collect();
        sources.code.insert(module, code_of(text));
    }
    sources.exported.insert((Vec::new(), "Apple".into()), vec!["a".into()]);
    let edges = &sources.uses()[&Vec::new()];
    let names: Vec<String> = edges.iter().map(|(from, to)| format!("{from}{to}")).collect();
    assert_eq!(names, ["ac", "ba", "bc", "ca"]);
    let cycle: Vec<String> = in_cycles(edges).iter().map(|(from, to)| format!("{from}{to}")).collect();
    assert_eq!(cycle, ["ac", "ca"]);
}
