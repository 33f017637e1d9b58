//! The reference page matches the table.

/// Rewrites the page with `REWRITE=1`.
// Plain #[test]: it compares texts.
#[test]
fn the_page_tells_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server_commands.md");
    let page = pumice_server::page();
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "docs/server_commands.md: run this test with REWRITE=1");
}
