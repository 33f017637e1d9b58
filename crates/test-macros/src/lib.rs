//! The attribute `#[pumice_test_macros::test]`: a test that runs on the runtime named in the
//! environment.
//!
//! `cargo test` starts each test on an OS thread. This attribute hands the body to
//! `pumice_port::testing::run`, which reads `PUMICE_RUNTIME` and runs it there or on a fiber. The
//! rest of the function stays as it is: attributes (`#[should_panic]`, `#[ignore]`, `#[cfg]`), name
//! and return type.
//!
//! Thread safety: compile-time code. A crate that uses the attribute names `pumice-port`. It parses
//! only test functions: no parameters, no generics, not `async`.
#![forbid(unsafe_code)]

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// Marks a test function that runs on a thread or a fiber, as `PUMICE_RUNTIME` says.
///
/// ```
/// #[pumice_test_macros::test]
/// fn adds() -> Result<(), std::num::ParseIntError> {
///     assert_eq!("1".parse::<u8>()? + 1, 2);
///     Ok(())
/// }
/// ```
///
/// Anything that is not a test function is a compile error:
///
/// ```compile_fail
/// #[pumice_test_macros::test]
/// fn with_parameter(n: u8) {
///     assert!(n > 0);
/// }
/// ```
///
/// ```compile_fail
/// #[pumice_test_macros::test]
/// struct NoFunction;
/// ```
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    if !arguments.is_empty() {
        return error("#[test] takes no arguments", Span::call_site());
    }
    match Function::parse(item) {
        Ok(function) => function.expand(),
        Err((message, span)) => error(message, span),
    }
}

/// A test function, cut where the expansion needs it.
struct Function {
    /// Attributes, visibility, `fn`, name and `()`.
    head: Vec<TokenTree>,
    /// `-> Type`, or nothing.
    output: Vec<TokenTree>,
    /// The body with its braces.
    body: Group,
}

impl Function {
    fn parse(item: TokenStream) -> Result<Function, (&'static str, Span)> {
        let mut tokens: Vec<TokenTree> = item.into_iter().collect();
        let body = match tokens.pop() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => group,
            _ => return Err(("#[test] goes on a function", Span::call_site())),
        };
        let Some(at) = tokens.iter().position(|token| is_word(token, "fn")) else {
            return Err(("#[test] goes on a function", Span::call_site()));
        };
        if let Some(token) = tokens[..at].iter().find(|token| is_word(token, "async")) {
            return Err(("a test is not async: fibers wait in plain calls", token.span()));
        }
        // After `fn` come the name and the parameters; generics would come between them.
        let parameters = match tokens.get(at + 2) {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => group,
            _ => return Err(("a test has no generic parameters", tokens[at].span())),
        };
        if !parameters.stream().is_empty() {
            return Err(("a test has no parameters", parameters.span()));
        }
        let output = tokens.split_off(at + 3);
        Ok(Function { head: tokens, output, body })
    }

    /// `#[test] HEAD OUTPUT { ::pumice_port::testing::run(move || OUTPUT BODY) }`
    fn expand(self) -> TokenStream {
        let output: TokenStream = match self.output.is_empty() {
            true => parse("-> ()"),
            false => self.output.iter().cloned().collect(),
        };
        let mut closure = parse("move ||");
        closure.extend(output);
        closure.extend([TokenTree::Group(self.body)]);
        let mut call = parse("::pumice_port::testing::run");
        call.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, closure))]);
        let mut expanded = parse("#[::core::prelude::v1::test]");
        expanded.extend(self.head);
        expanded.extend(self.output);
        expanded.extend([TokenTree::Group(Group::new(Delimiter::Brace, call))]);
        expanded
    }
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

/// Tokens of text written in this file.
fn parse(text: &str) -> TokenStream {
    text.parse().expect("the text is a constant of this file")
}

/// `::core::compile_error! { "message" }` at `span`.
fn error(message: &str, span: Span) -> TokenStream {
    let name = Ident::new("compile_error", span);
    let mut tokens: TokenStream = [TokenTree::Ident(name)].into_iter().collect();
    tokens.extend(parse(&format!("! {{ {message:?} }}")));
    tokens
}
