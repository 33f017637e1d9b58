//! What the attribute keeps of a test function, and where the body runs.
#![allow(clippy::unwrap_used)]

use pumice_port::fiber;

/// Whether the environment asks for fibers.
fn fibers_wanted() -> bool {
    std::env::var("PUMICE_RUNTIME").is_ok_and(|text| text.starts_with("fibers"))
}

#[pumice_test_macros::test]
fn the_body_runs_where_the_environment_says() {
    assert_eq!(fiber::is_fiber(), fibers_wanted());
}

#[pumice_test_macros::test]
fn a_result_is_returned() -> Result<(), std::num::ParseIntError> {
    let number: u8 = "7".parse()?;
    assert_eq!(number, 7);
    Ok(())
}

#[pumice_test_macros::test]
#[should_panic(expected = "as announced")]
fn the_panic_of_the_body_reaches_the_test() {
    panic!("as announced");
}

#[should_panic(expected = "Err(\"refused\")")]
#[pumice_test_macros::test]
fn attributes_may_stand_before() {
    let result: Result<(), &str> = Err("refused");
    panic!("{result:?}");
}

mod inner {
    #[pumice_test_macros::test]
    pub(crate) fn visibility_is_kept() {
        let words = ["a", "b"].map(str::to_string);
        assert_eq!(words.concat(), "ab");
    }
}
