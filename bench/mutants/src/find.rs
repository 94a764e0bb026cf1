//! Where a source file can be changed, and into what.

use std::ops::Range;

use anyhow::{Context, Result};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, ReturnType, Signature, Type, UnOp};

/// A place in a file with the changes that can be made there.
pub struct Site {
    /// Bytes of the expression; empty, behind the opening brace, for whole functions.
    pub range: Range<usize>,
    pub line: usize,
    pub function: String,
    pub changes: Vec<Change>,
}

pub struct Change {
    /// For people, such as `+ -> *`.
    pub what: String,
    /// What takes the place of the expression, or comes first in the function.
    pub text: String,
}

/// All sites of a file in order; a site inside another comes after it.
pub fn sites(text: &str) -> Result<Vec<Site>> {
    let file = syn::parse_file(text).context("not Rust")?;
    let mut finder = Finder { text, path: Vec::new(), found: Vec::new() };
    finder.visit_file(&file);
    let mut found = finder.found;
    found.sort_by_key(|s| (s.range.start, usize::MAX - s.range.end));
    Ok(found)
}

struct Finder<'a> {
    text: &'a str,
    path: Vec<String>,
    found: Vec<Site>,
}

impl Finder<'_> {
    fn source(&self, of: &impl Spanned) -> String {
        format!("({})", &self.text[of.span().byte_range()])
    }

    fn add(&mut self, span: Span, range: Range<usize>, changes: Vec<Change>) {
        if !changes.is_empty() {
            let site = Site { range, line: span.start().line, function: self.path.join("::"), changes };
            self.found.push(site);
        }
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        // What is evaluated by the compiler cannot ask which mutant is awake; wrong indices in unsafe code could do anything.
        let left_out = signature.constness.is_some() || signature.unsafety.is_some() || has_unsafe(block);
        if left_out || is_test(attributes) {
            return;
        }
        self.path.push(signature.ident.to_string());
        let brace = block.brace_token.span.open();
        let end = brace.byte_range().end;
        let changes = defaults(&signature.output)
            .into_iter()
            .map(|v| Change { what: format!("returns {v} at once"), text: format!("return {v};") })
            .collect();
        self.add(signature.ident.span(), end..end, changes);
        self.visit_block(block);
        self.path.pop();
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let Type::Path(path) = &*item.self_ty else { return };
        self.path.push(path.path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default());
        visit::visit_item_impl(self, item);
        self.path.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block);
        }
    }

    // Values that the compiler must know.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}

    fn visit_expr_repeat(&mut self, e: &'ast syn::ExprRepeat) {
        self.visit_expr(&e.expr);
    }

    fn visit_expr_binary(&mut self, e: &'ast syn::ExprBinary) {
        let chain_of_let = holds_let(&e.left) || holds_let(&e.right);
        if !chain_of_let {
            let from = &self.text[e.op.span().byte_range()];
            let (left, right) = (self.source(&e.left), self.source(&e.right));
            let changes = operators(&e.op)
                .iter()
                .map(|to| Change { what: format!("{from} -> {to}"), text: format!("{left} {to} {right}") })
                .collect();
            self.add(e.op.span(), e.span().byte_range(), changes);
        }
        visit::visit_expr_binary(self, e);
    }

    fn visit_expr_unary(&mut self, e: &'ast syn::ExprUnary) {
        let sign = match e.op {
            UnOp::Not(_) => "!",
            UnOp::Neg(_) => "-",
            _ => "",
        };
        if !sign.is_empty() {
            let change = Change { what: format!("{sign} removed"), text: self.source(&e.expr) };
            self.add(e.op.span(), e.span().byte_range(), vec![change]);
        }
        visit::visit_expr_unary(self, e);
    }

    fn visit_expr_method_call(&mut self, e: &'ast syn::ExprMethodCall) {
        let from = e.method.to_string();
        let to = match from.as_str() {
            "min" => "max",
            "max" => "min",
            "min_by" => "max_by",
            "max_by" => "min_by",
            "min_by_key" => "max_by_key",
            "max_by_key" => "min_by_key",
            _ => "",
        };
        if !to.is_empty() {
            let (whole, name) = (e.span().byte_range(), e.method.span().byte_range());
            let text =
                format!("{}{to}{}", &self.text[whole.start..name.start], &self.text[name.end..whole.end]);
            self.add(e.method.span(), whole, vec![Change { what: format!("{from} -> {to}"), text }]);
        }
        visit::visit_expr_method_call(self, e);
    }
}

fn operators(op: &BinOp) -> &'static [&'static str] {
    match op {
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+", "/"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["%", "*"],
        BinOp::Rem(_) => &["/", "+"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::BitXor(_) => &["|", "&"],
        BinOp::BitAnd(_) => &["|", "^"],
        BinOp::BitOr(_) => &["&", "^"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">", "=="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<", "=="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::AddAssign(_) => &["-=", "*="],
        BinOp::SubAssign(_) => &["+=", "/="],
        BinOp::MulAssign(_) => &["+=", "/="],
        BinOp::DivAssign(_) => &["%=", "*="],
        BinOp::RemAssign(_) => &["/=", "+="],
        BinOp::BitXorAssign(_) => &["|=", "&="],
        BinOp::BitAndAssign(_) => &["|=", "^="],
        BinOp::BitOrAssign(_) => &["&=", "^="],
        BinOp::ShlAssign(_) => &[">>="],
        BinOp::ShrAssign(_) => &["<<="],
        _ => &[],
    }
}

/// Values that a function could return without doing its work.
fn defaults(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".into()],
        ReturnType::Type(_, kind) => values(kind),
    }
}

fn values(kind: &Type) -> Vec<String> {
    let of = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    let path = match kind {
        Type::Path(path) => path,
        Type::Tuple(tuple) if tuple.elems.is_empty() => return of(&["()"]),
        Type::Tuple(_) | Type::Array(_) => return of(&["Default::default()"]),
        _ => return Vec::new(),
    };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    match last.ident.to_string().as_str() {
        "bool" => of(&["true", "false"]),
        "f32" | "f64" => of(&["0.0", "1.0"]),
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" => of(&["0", "1"]),
        "Option" => of(&["None"]),
        "Vec" => of(&["Vec::new()"]),
        "Result" => match &last.arguments {
            syn::PathArguments::AngleBracketed(list) => match list.args.first() {
                Some(syn::GenericArgument::Type(inner)) => {
                    values(inner).into_iter().map(|v| format!("Ok({v})")).collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        },
        _ => of(&["Default::default()"]),
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| {
        let name = |n: &str| a.path().is_ident(n);
        let argument = |n: &str| a.parse_args::<syn::Ident>().is_ok_and(|i| i == n);
        name("test") || (name("cfg") && argument("test"))
    })
}

/// Whether a condition is one of a chain with `let`, which can be nothing but `&&`.
fn holds_let(e: &Expr) -> bool {
    match e {
        Expr::Let(_) => true,
        Expr::Binary(b) => matches!(b.op, BinOp::And(_)) && (holds_let(&b.left) || holds_let(&b.right)),
        _ => false,
    }
}

fn has_unsafe(block: &Block) -> bool {
    struct Search(bool);
    impl<'ast> Visit<'ast> for Search {
        fn visit_expr_unsafe(&mut self, _: &'ast syn::ExprUnsafe) {
            self.0 = true;
        }
    }
    let mut search = Search(false);
    search.visit_block(block);
    search.0
}
