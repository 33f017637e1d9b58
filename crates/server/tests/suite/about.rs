//! What the server says of its commands.

use super::{Quiet, Scratch};

#[pumice_test_macros::test]
fn lists_have_subcommands_under_their_full_names() {
    let scratch = Scratch::new("about");
    let server = Quiet::open(scratch.path());
    let mut client = server.client();
    let all = server.say(&mut client, "COMMAND LIST");
    for name in ["get", "config", "config|rewrite", "client|list"] {
        assert!(all.contains(&format!("|{name}|")), "{name}: {all}");
    }
    server.talk(
        &mut client,
        &[
            (
                "COMMAND LIST FILTERBY PATTERN config|re*",
                "*2|$16|config|resetstat|$14|config|rewrite",
            ),
            ("CONFIG REWRITE", "-ERR The server is running without a config file"),
        ],
    );
}
