//! Types of C as types of Rust.
//!
//! Pointers to handles are `*mut` whether C says const or not: the machine does not tell them
//! apart, and handles are shared.

/// The names of types of call-backs.
pub struct Names<'a> {
    pub typedefs: Vec<&'a str>,
}

/// Splits a list at the commas outside of parentheses.
pub fn split(list: &str) -> Vec<String> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..at].trim().to_string());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[start..].trim().to_string());
    parts.retain(|part| !part.is_empty() && part != "void");
    parts
}

/// The name of the handle that `c` is a pointer to: `rocksdb_options_t` of
/// `const rocksdb_options_t*`.
pub fn object(c: &str) -> Option<&str> {
    let name = c.trim().trim_start_matches("const ").strip_suffix('*')?.trim();
    is_handle(name).then_some(name)
}

fn is_handle(name: &str) -> bool {
    name.starts_with("rocksdb_") && name.ends_with("_t") && name != "rocksdb_slice_t"
}

fn scalar(name: &str) -> Option<&'static str> {
    Some(match name {
        "char" => "c_char",
        "unsigned char" | "bool" | "uint8_t" => "u8",
        "int" => "c_int",
        "unsigned" | "unsigned int" => "c_uint",
        "uint32_t" => "u32",
        "int32_t" => "i32",
        "uint64_t" => "u64",
        "unsigned long long" => "c_ulonglong",
        "int64_t" => "i64",
        "size_t" => "usize",
        "double" => "f64",
        "rocksdb_slice_t" => "Slice",
        _ => return None,
    })
}

impl Names<'_> {
    /// The type `c` in Rust; `None` for no value.
    pub fn result(&self, c: &str) -> Option<String> {
        (c.trim() != "void").then(|| self.rust(c))
    }

    /// The type `c` in Rust.
    pub fn rust(&self, c: &str) -> String {
        let c = c.trim();
        if let Some(function) = c.strip_prefix("fn(") {
            return self.function(function);
        }
        let Some(star) = c.find('*') else {
            let name = c.trim_start_matches("const ").trim();
            let known = self.typedefs.contains(&name).then(|| name.to_string());
            let known = known.or_else(|| scalar(name).map(str::to_string));
            return known.unwrap_or_else(|| panic!("unknown C type {c}"));
        };
        let (base, levels) = (c[..star].trim(), &c[star..]);
        let name = base.trim_start_matches("const ").trim();
        let handle = is_handle(name);
        let mut is_const = base.starts_with("const ");
        let mut rust = match name {
            "void" => "c_void".to_string(),
            name if handle => name.to_string(),
            name => scalar(name).unwrap_or_else(|| panic!("unknown C type {c}")).to_string(),
        };
        for level in levels.split('*').skip(1) {
            let pointer = if is_const && !handle { "*const" } else { "*mut" };
            rust = format!("{pointer} {rust}");
            is_const = level.trim() == "const";
        }
        rust
    }

    /// `A, B) -> R` as the type of a call-back, which may be null.
    fn function(&self, c: &str) -> String {
        let end = c.rfind(") -> ").unwrap_or_else(|| panic!("no result: fn({c}"));
        let arguments: Vec<String> = split(&c[..end]).iter().map(|a| self.rust(a)).collect();
        let result = self.result(&c[end + 5..]).map_or(String::new(), |r| format!(" -> {r}"));
        format!("Option<unsafe extern \"C\" fn({}){result}>", arguments.join(", "))
    }
}
