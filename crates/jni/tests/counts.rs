//! How many native methods throw NotSupported: the number may only fall.

/// Methods that are missing, counted over all signatures of the jars.
const MISSING_MAX: usize = 2;

#[test]
fn fewer_methods_are_missing() {
    let state = include_str!(concat!(env!("OUT_DIR"), "/natives_state.txt"));
    let count = |name: &str| -> usize {
        let found = state.lines().find_map(|line| line.strip_prefix(name));
        found.map_or(0, |number| number.trim().parse().expect("a number"))
    };
    let (missing, all) =
        (count("missing"), count("missing") + count("by hand") + count("generated"));
    let table = include_str!("../tables/natives.tsv");
    assert_eq!(all, table.lines().filter(|line| !line.starts_with('#')).count());
    assert_eq!(
        missing, MISSING_MAX,
        "lower MISSING_MAX, and the numbers in docs/java.md and docs/compatibility.md"
    );
}
