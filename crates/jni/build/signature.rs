//! Signatures of methods: their types in Rust, and the names of the exported functions.

/// A method's signature.
pub struct Signature {
    /// As in the class file.
    pub text: String,
    /// The arguments, one by one.
    pub arguments: Vec<String>,
    /// The result.
    pub result: String,
}

impl Signature {
    pub fn parse(text: &str) -> Signature {
        let (arguments, result) = text
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .unwrap_or_else(|| panic!("no signature: {text}"));
        Signature {
            text: text.to_string(),
            arguments: split(arguments),
            result: result.to_string(),
        }
    }

    /// The signature's arguments as they are written in `Java:` lines.
    pub fn short(&self) -> String {
        let text = self.arguments.concat();
        text.replace("Ljava/lang/String;", "T").replace("Ljava/nio/ByteBuffer;", "U")
    }

    /// The raw types of the arguments.
    pub fn raw_types(&self) -> Vec<&'static str> {
        self.arguments.iter().map(|argument| raw(argument)).collect()
    }

    /// The raw type of the result.
    pub fn result(&self) -> &'static str {
        raw(&self.result)
    }

    /// The arguments as values: bytes and what says where they are in one tuple.
    pub fn groups(&self) -> Vec<String> {
        let mut groups = Vec::new();
        let mut at = 0;
        while at < self.arguments.len() {
            let is_bytes =
                self.arguments[at] == "[B" || self.arguments[at] == "Ljava/nio/ByteBuffer;";
            let numbers = self.arguments[at + 1..].iter().take_while(|a| *a == "I").take(2).count();
            let members = if is_bytes { numbers + 1 } else { 1 };
            let names: Vec<String> = (at..at + members).map(|at| format!("a{at}")).collect();
            groups.push(match members {
                1 => names.concat(),
                _ => format!("({})", names.join(", ")),
            });
            at += members;
        }
        groups
    }

    /// The name by which the virtual machine finds the function.
    pub fn export_name(&self, class: &str, name: &str) -> String {
        let arguments = mangled(&self.arguments.concat());
        format!("Java_org_rocksdb_{}_{}__{arguments}", mangled(class), mangled(name))
    }
}

fn raw(descriptor: &str) -> &'static str {
    match descriptor {
        "V" => "()",
        "Z" => "bool",
        "B" => "i8",
        "S" => "i16",
        "C" => "u16",
        "I" => "i32",
        "J" => "i64",
        "D" => "f64",
        other if other.starts_with(['L', '[']) => "jobject",
        other => panic!("no type of a native method: {other}"),
    }
}

fn split(arguments: &str) -> Vec<String> {
    let mut types = Vec::new();
    let mut rest = arguments;
    while !rest.is_empty() {
        let array = rest.len() - rest.trim_start_matches('[').len();
        let end = match rest[array..].starts_with('L') {
            true => rest.find(';').expect("the name of a class ends") + 1,
            false => array + 1,
        };
        types.push(rest[..end].to_string());
        rest = &rest[end..];
    }
    types
}

/// The escapes of the Java Native Interface.
fn mangled(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' => name.push(letter),
            '/' => name.push('_'),
            '_' => name.push_str("_1"),
            ';' => name.push_str("_2"),
            '[' => name.push_str("_3"),
            other => name.push_str(&format!("_0{:04x}", other as u32)),
        }
    }
    name
}
