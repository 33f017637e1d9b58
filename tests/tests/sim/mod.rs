//! A share of the simulation suites: the program `sim` over a few hundred seeds. It fails when a
//! seed does, when a seed does not repeat itself, and when too little happened.

use std::process::Command;

const SEEDS: &str = "600";

#[test]
fn a_share_of_the_seeds_is_well() {
    let output = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["--seeds", SEEDS, "--jobs", "2"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("SIM seeds="), "{text}");
}
