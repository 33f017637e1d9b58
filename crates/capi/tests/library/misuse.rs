//! Calls that the header forbids end in an error or end the process by name: never in damage.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::programs::{compiled, folder_with, printed};
use super::{out_dir, shared_library};

/// Runs the orders, each in a process of its own; what each ended in.
fn ends(orders: &[String]) -> BTreeMap<String, String> {
    let scratch = tempfile::tempdir().expect("a folder is made");
    let scratch = scratch.path();
    let ours = folder_with(&shared_library(), &scratch.join("ours"));
    let program = compiled("misuse", scratch, &ours, &[]);
    let mut child = Command::new(program)
        .env("LD_LIBRARY_PATH", &ours)
        .current_dir(scratch)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("a pipe");
    let text = orders.join("\n") + "\n";
    let writer = std::thread::spawn(move || {
        input.write_all(text.as_bytes()).expect("the program reads");
    });
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("no panic");
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().map(|line| line.split_once(": ").expect("an order and its end"));
    let ends: BTreeMap<_, _> = lines.map(|(a, b)| (a.to_string(), b.to_string())).collect();
    assert_eq!(ends.len(), orders.len());
    ends
}

fn exports() -> Vec<String> {
    let text = std::fs::read_to_string(out_dir().join("exports.txt")).expect("written");
    text.lines().map(str::to_string).collect()
}

/// The functions that make an object of no arguments, and the function that destroys it.
fn lives() -> Vec<(String, String)> {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tables/symbols.tsv");
    let table = std::fs::read_to_string(table).expect("it is there");
    let stubs = std::fs::read_to_string(out_dir().join("stubs.txt")).expect("written");
    let stubs: BTreeSet<&str> = stubs.lines().collect();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("typedef"))
        .map(|line| line.split('\t').collect())
        .filter(|row: &Vec<&str>| !stubs.contains(row[1]))
        .collect();
    // A flag is a byte that the program reads and writes, and no handle.
    let is_handle = |row: &&Vec<&str>| row[3] != "unsigned char*";
    let creates = rows.iter().filter(|row| row[6] == "create" && row[4].is_empty());
    let creates = creates.filter(is_handle);
    let pair = |create: &Vec<&str>| {
        let destroys = |row: &&Vec<&str>| row[6] == "destroy" && row[4] == create[3];
        rows.iter().find(destroys).map(|row| (create[1].to_string(), row[1].to_string()))
    };
    creates.filter_map(pair).collect()
}

#[test]
fn every_function_survives_null_or_ends_the_process_by_name() {
    let orders: Vec<_> = exports().iter().map(|name| format!("null {name}")).collect();
    assert_eq!(orders.len(), 1782);
    let mut wrong = Vec::new();
    for (order, end) in ends(&orders) {
        let name = order.strip_prefix("null ").expect("what was asked");
        let named = format!("signal 6 librocksdb (Pumice): {name}: ");
        if !end.starts_with("returned") && !end.starts_with(&named) {
            wrong.push(format!("{order}: {end}"));
        }
    }
    assert!(wrong.is_empty(), "{} of them: {wrong:#?}", wrong.len());
}

#[test]
fn an_object_that_is_destroyed_twice_ends_the_process_by_name() {
    let lives = lives();
    assert_eq!(lives.len(), 40, "{lives:?}");
    let order = |(create, destroy): &(String, String)| format!("twice {create} {destroy}");
    let ends = ends(&lives.iter().map(order).collect::<Vec<_>>());
    for (create, destroy) in lives.iter().filter(|_| cfg!(debug_assertions)) {
        let end = &ends[&format!("twice {create} {destroy}")];
        let named = format!("signal 6 librocksdb (Pumice): {destroy}: ");
        assert!(end.starts_with(&named), "{create}, {destroy} twice: {end}");
    }
}

#[test]
fn an_object_of_another_type_ends_the_process_by_name() {
    let lives = lives();
    let next = lives.iter().cycle().skip(1);
    let pairs: Vec<_> = lives.iter().zip(next).map(|(a, b)| (a.0.clone(), b.1.clone())).collect();
    let order = |(create, destroy): &(String, String)| format!("other {create} {destroy}");
    let ends = ends(&pairs.iter().map(order).collect::<Vec<_>>());
    for (create, destroy) in pairs.iter().filter(|_| cfg!(debug_assertions)) {
        let end = &ends[&format!("other {create} {destroy}")];
        let named = format!("signal 6 librocksdb (Pumice): {destroy}: the handle is a ");
        assert!(end.starts_with(&named), "{create}, {destroy}: {end}");
    }
}

#[test]
fn a_forked_child_is_refused_every_call() {
    let scratch = tempfile::tempdir().expect("a folder is made");
    let scratch = scratch.path();
    let ours = folder_with(&shared_library(), &scratch.join("ours"));
    let program = compiled("forked", scratch, &ours, &[]);
    let text = printed(&program, &ours, &scratch.join("data"), &[]);
    let (child, parent) = text.split_once("parent: ").expect("both print");
    let child = child.split_once("child\n").expect("its heading").1;
    assert_eq!(child.lines().count(), 10, "{child}");
    for line in child.lines() {
        let refused =
            line.contains("made by fork") || line == "valid 0" || line == "value: none (0)";
        assert!(refused, "{line}");
    }
    let wanted = "child ended with 0\nvalue: 1 1\nvalue: none (0)\nput: ok\nopen again: ok\n";
    assert_eq!(parent, wanted);
}
