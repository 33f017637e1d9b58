//! Texts made from the rows, so that they cannot be out of date: the reference page
//! (`docs/options.md`) and the lines that an opened database writes into its info log.

use super::block_based::BlockBasedTableOptions;
use super::cf_options::ColumnFamilyOptions;
use super::db_options::DbOptions;
use super::other_tables::{CuckooTableOptions, PlainTableOptions};
use super::row::{OptionRow, OptionSet, RowKind, Saved};

/// The page in Markdown.
pub fn reference_page() -> String {
    let mut out = String::from(
        "# Options\n\nMade from the option tables; do not edit. Names and defaults are RocksDB \
         10.10's. *Mutable* options can change while the database is open. *OPTIONS file*: always \
         in it, only if it is *set* to a value other than the default (RocksDB added the name \
         after 7.8), or never. *Shown by*: the test that shows what the option does, as file and \
         test.\n",
    );
    section::<DbOptions>(&mut out, "Database options");
    section::<ColumnFamilyOptions>(&mut out, "Column-family options");
    section::<BlockBasedTableOptions>(&mut out, "Block-based table options");
    section::<PlainTableOptions>(&mut out, "Plain table options");
    section::<CuckooTableOptions>(&mut out, "Cuckoo table options");
    out
}

/// `Options.name: value` for every option that the engine obeys, as the info log lists them.
pub fn info_log_lines<S: OptionSet>(options: &S) -> impl Iterator<Item = String> {
    let supported = S::rows().iter().filter(|row| row.is_supported());
    supported.map(|row| format!("{:>56}: {}", format!("Options.{}", row.name), row.get(options)))
}

fn section<S: OptionSet>(out: &mut String, title: &str) {
    out.push_str(&format!(
        "\n## {title}\n\n| option | type | default | mutable | OPTIONS file | meaning | \
                           shown by |\n"
    ));
    out.push_str("|---|---|---|---|---|---|---|\n");
    let defaults = S::default();
    for row in S::rows().iter().filter(|row| row.is_supported()) {
        let mutable = if row.mutable { "yes" } else { "no" };
        out.push_str(&format!(
            "| {} | {} | `{}` | {mutable} | {} | {} | {} |\n",
            row.name,
            row.type_name,
            row.get(&defaults),
            match row.saved {
                Saved::Always => "always",
                Saved::Newer | Saved::Newest => "set",
                Saved::Never => "never",
            },
            meaning(row),
            row.proof.unwrap_or_default()
        ));
    }
    short_list(out, "Accepted without effect", &defaults, |k| matches!(k, RowKind::Hint { .. }));
    short_list(out, "Accepted with the default only", &defaults, |k| {
        matches!(k, RowKind::Unsupported { .. })
    });
}

fn short_list<S: OptionSet>(
    out: &mut String,
    title: &str,
    defaults: &S,
    wanted: impl Fn(&RowKind<S>) -> bool,
) {
    let rows: Vec<_> = S::rows().iter().filter(|row| wanted(&row.kind)).collect();
    if !rows.is_empty() {
        out.push_str(&format!("\n{title}:\n\n"));
    }
    for row in rows {
        out.push_str(&format!("- `{}={}`: {}\n", row.name, row.get(defaults), meaning(row)));
    }
}

fn meaning<S>(row: &OptionRow<S>) -> String {
    row.doc.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
