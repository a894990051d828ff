//! `SELECT`.

use model::Order;

use crate::ast::{
    ArithmeticOperator, Ordering, Select, SelectClause, SelectItem, Selector, Term, WriteTimeKind,
};
use crate::lexer::{Keyword, Symbol, TokenKind};

use super::message::follows_selector;
use super::{Parsed, Parser, TIMEOUT};

impl Parser<'_> {
    /// `selectStatement`
    pub(super) fn select(&mut self) -> Parsed<Select> {
        self.expect_keyword(Keyword::Select)?;
        let (json, (distinct, selection)) = self.json_clause()?;
        self.expect_keyword(Keyword::From)?;
        let table = self.table_name()?;
        let relations = if self.take_keyword(Keyword::Where) {
            self.where_clause()?
        } else {
            Vec::new()
        };
        let mut group_by = Vec::new();
        if self.take_keyword(Keyword::Group) {
            self.expect_keyword(Keyword::By)?;
            group_by = self.list(Self::selector)?;
        }
        let mut order_by = Vec::new();
        if self.take_keyword(Keyword::Order) {
            self.expect_keyword(Keyword::By)?;
            for ordering in self.list(Self::ordering)? {
                take_ordering(&mut order_by, ordering);
            }
        }
        let mut per_partition_limit = None;
        if self.take_keyword(Keyword::Per) {
            self.expect_keywords(&[Keyword::Partition, Keyword::Limit])?;
            per_partition_limit = Some(self.integer_or_marker()?);
        }
        let mut limit = None;
        if self.take_keyword(Keyword::Limit) {
            limit = Some(self.integer_or_marker()?);
        }
        let allow_filtering = self.take_keyword(Keyword::Allow);
        if allow_filtering {
            self.expect_keyword(Keyword::Filtering)?;
        }
        let bypass_cache = self.bypass_cache();
        let timeout = self.timeout()?;
        Ok(Select {
            table,
            json,
            distinct,
            selection,
            relations,
            group_by,
            order_by,
            per_partition_limit,
            limit,
            allow_filtering,
            bypass_cache,
            timeout,
        })
    }

    /// `[BYPASS CACHE]`, ScyllaDB's; none of the words is a keyword.
    fn bypass_cache(&mut self) -> bool {
        let words = self.attempt(|parser| {
            for word in ["bypass", "cache"] {
                if !parser.take_word(word) {
                    return Err(parser.no_alternative());
                }
            }
            Ok(())
        });
        words.is_some()
    }

    /// `[USING TIMEOUT duration]`
    pub(super) fn timeout(&mut self) -> Parsed<Option<Term>> {
        if !self.take_keyword(Keyword::Using) {
            return Ok(None);
        }
        match self.take_word(TIMEOUT) {
            true => self.term().map(Some),
            false => Err(self.expecting("K_TIMEOUT")),
        }
    }

    /// `[JSON] selectClause`, where `json` may also be a column.
    fn json_clause(&mut self) -> Parsed<(bool, (bool, SelectClause))> {
        if self.is(Keyword::Json) {
            let clause = self.attempt(|parser| {
                parser.next();
                let clause = parser.distinct_clause()?;
                match parser.is_refused() {
                    true => Err(parser.no_alternative()),
                    false => Ok(clause),
                }
            });
            if let Some(clause) = clause {
                return Ok((true, clause));
            }
        }
        Ok((false, self.distinct_clause()?))
    }

    /// `[DISTINCT] selectors`, where `distinct` may also be a column.
    fn distinct_clause(&mut self) -> Parsed<(bool, SelectClause)> {
        if self.is(Keyword::Distinct) {
            let clause = self.attempt(|parser| {
                parser.next();
                let clause = parser.select_clause()?;
                match parser.is_refused() {
                    true => Err(parser.no_alternative()),
                    false => Ok(clause),
                }
            });
            if let Some(clause) = clause {
                return Ok((true, clause));
            }
        }
        Ok((false, self.select_clause()?))
    }

    /// `selectors`
    pub(super) fn select_clause(&mut self) -> Parsed<SelectClause> {
        if self.take(Symbol::Star) {
            return Ok(SelectClause::Wildcard);
        }
        let items = self.list(|parser| {
            let selector = parser.selector()?;
            let alias = if parser.take_keyword(Keyword::As) {
                Some(parser.identifier()?)
            } else {
                None
            };
            Ok(SelectItem { selector, alias })
        })?;
        Ok(SelectClause::Items(items))
    }

    /// `unaliasedSelector`
    fn selector(&mut self) -> Parsed<Selector> {
        self.nested(|parser| {
            let mut left = parser.selector_product()?;
            loop {
                let operator = match parser.kind() {
                    TokenKind::Symbol(Symbol::Plus) => ArithmeticOperator::Add,
                    TokenKind::Symbol(Symbol::Minus) => ArithmeticOperator::Subtract,
                    _ => return Ok(left),
                };
                parser.next();
                parser.operator()?;
                let right = parser.selector_product()?;
                left = operation(operator, left, right);
            }
        })
    }

    fn selector_product(&mut self) -> Parsed<Selector> {
        let mut left = self.selector_factor()?;
        loop {
            let operator = match self.kind() {
                TokenKind::Symbol(Symbol::Star) => ArithmeticOperator::Multiply,
                TokenKind::Symbol(Symbol::Slash) => ArithmeticOperator::Divide,
                TokenKind::Symbol(Symbol::Percent) => ArithmeticOperator::Modulo,
                _ => return Ok(left),
            };
            self.next();
            self.operator()?;
            let right = self.selector_factor()?;
            left = operation(operator, left, right);
        }
    }

    /// `selectionGroup`
    fn selector_factor(&mut self) -> Parsed<Selector> {
        if self.take(Symbol::Minus) {
            let inner = self.nested(Self::selector_factor)?;
            return Ok(Selector::Negation(Box::new(inner)));
        }
        let from = self.at;
        let selector = self.simple_selector()?;
        let is_column = matches!(selector, Selector::Column(_));
        let selector = self.modifiers(from, selector)?;
        if is_column && !matches!(selector, Selector::Element(..) | Selector::Slice(..)) {
            self.predict(from, follows_selector);
        }
        Ok(selector)
    }

    /// `selectorModifier`: fields, elements and slices.
    fn modifiers(&mut self, from: usize, mut selector: Selector) -> Parsed<Selector> {
        loop {
            if self.take(Symbol::Dot) {
                self.operator()?;
                if !self.is_identifier_at(0) {
                    return Err(self.no_alternative_after(from));
                }
                selector = Selector::Field(Box::new(selector), self.identifier()?);
            } else if self.is_symbol(Symbol::OpenBracket) {
                // What is no element or slice is not taken at all.
                let inner = selector.clone();
                let modified = self.attempt(|parser| {
                    parser.expect(Symbol::OpenBracket)?;
                    parser.operator()?;
                    let modified = parser.element_or_slice(inner)?;
                    parser.expect(Symbol::CloseBracket)?;
                    Ok(modified)
                });
                let Some(modified) = modified else {
                    return Ok(selector);
                };
                selector = modified;
            } else {
                return Ok(selector);
            }
        }
    }

    /// `collectionSubSelection`
    fn element_or_slice(&mut self, selector: Selector) -> Parsed<Selector> {
        let selector = Box::new(selector);
        if self.take(Symbol::Range) {
            let to = self.term()?;
            return Ok(Selector::Slice(selector, None, Some(Box::new(to))));
        }
        let from = Box::new(self.term()?);
        if !self.take(Symbol::Range) {
            return Ok(Selector::Element(selector, from));
        }
        let to = if self.is_symbol(Symbol::CloseBracket) {
            None
        } else {
            Some(Box::new(self.term()?))
        };
        Ok(Selector::Slice(selector, Some(from), to))
    }

    /// `selectionGroupWithoutField`
    fn simple_selector(&mut self) -> Parsed<Selector> {
        self.nested(|parser| match parser.kind() {
            TokenKind::Symbol(Symbol::Open) => parser.hint_or_parentheses(),
            TokenKind::Symbol(Symbol::OpenBracket) => {
                parser.next();
                let items = parser.values_until(Symbol::CloseBracket, Self::selector)?;
                Ok(Selector::List(items))
            }
            TokenKind::Symbol(Symbol::OpenBrace) => parser.selector_braces(),
            TokenKind::Word(Some(Keyword::Null)) => {
                parser.next();
                Ok(Selector::Term(Term::Null))
            }
            _ => parser.selector_word(),
        })
    }

    /// A function, a constant, a marker or a column.
    fn selector_word(&mut self) -> Parsed<Selector> {
        if let Some(keyword) = self.keyword()
            && self.is_symbol_at(1, Symbol::Open)
            && let Some(selector) = self.special_function(keyword)?
        {
            return Ok(selector);
        }
        if let Some(marker) = self.take_marker()? {
            return Ok(Selector::Term(Term::Marker(marker)));
        }
        if let Some(literal) = self.take_constant() {
            return Ok(Selector::Term(Term::Literal(literal)));
        }
        if self.is_function_call() {
            let name = self.function_name()?;
            self.expect(Symbol::Open)?;
            let arguments = self.values_until(Symbol::Close, Self::selector)?;
            return Ok(Selector::Function { name, arguments });
        }
        Ok(Selector::Column(self.identifier()?))
    }

    /// `COUNT(*)`, `WRITETIME`, `MAXWRITETIME`, `MINWRITETIME`, `TTL`, `CAST`
    fn special_function(&mut self, keyword: Keyword) -> Parsed<Option<Selector>> {
        let kind = match keyword {
            Keyword::Count if self.is_symbol_at(2, Symbol::Star) => {
                self.next();
                self.next();
                self.next();
                self.expect(Symbol::Close)?;
                return Ok(Some(Selector::CountRows));
            }
            Keyword::Cast => {
                self.next();
                self.expect(Symbol::Open)?;
                let selector = self.selector()?;
                self.expect_keyword(Keyword::As)?;
                let ty = self.native_type()?;
                self.expect(Symbol::Close)?;
                return Ok(Some(Selector::Cast(Box::new(selector), ty)));
            }
            Keyword::WriteTime => WriteTimeKind::WriteTime,
            Keyword::MaxWriteTime => WriteTimeKind::MaxWriteTime,
            Keyword::MinWriteTime => WriteTimeKind::MinWriteTime,
            Keyword::Ttl => WriteTimeKind::Ttl,
            _ => return Ok(None),
        };
        self.next();
        self.expect(Symbol::Open)?;
        let from = self.at;
        let column = Selector::Column(self.identifier()?);
        let selector = self.modifiers(from, column)?;
        self.expect(Symbol::Close)?;
        Ok(Some(Selector::WriteTime(kind, Box::new(selector))))
    }

    fn hint_or_parentheses(&mut self) -> Parsed<Selector> {
        let hint = self.attempt(|parser| {
            parser.expect(Symbol::Open)?;
            let ty = parser.data_type()?;
            parser.expect(Symbol::Close)?;
            let selector = parser.simple_selector()?;
            Ok(Selector::TypeHint(ty, Box::new(selector)))
        });
        if let Some(selector) = hint {
            return Ok(selector);
        }
        self.expect(Symbol::Open)?;
        let items = self.list(Self::selector)?;
        self.expect(Symbol::Close)?;
        Ok(Selector::Parentheses(items))
    }

    fn selector_braces(&mut self) -> Parsed<Selector> {
        self.expect(Symbol::OpenBrace)?;
        if self.take(Symbol::CloseBrace) {
            return Ok(Selector::Set(Vec::new()));
        }
        let first = self.selector()?;
        if !self.take(Symbol::Colon) {
            let mut items = vec![first];
            while self.take(Symbol::Comma) {
                items.push(self.selector()?);
            }
            self.expect(Symbol::CloseBrace)?;
            return Ok(Selector::Set(items));
        }
        let mut entries = vec![(first, self.selector()?)];
        while self.take(Symbol::Comma) {
            let key = self.selector()?;
            self.expect(Symbol::Colon)?;
            entries.push((key, self.selector()?));
        }
        self.expect(Symbol::CloseBrace)?;
        Ok(Selector::Map(entries))
    }

    /// `orderByClause`
    fn ordering(&mut self) -> Parsed<Ordering> {
        let column = self.column_name()?;
        let ann = if self.take_keyword(Keyword::Ann) {
            self.expect_keyword(Keyword::Of)?;
            Some(self.term()?)
        } else {
            None
        };
        let order = if self.take_keyword(Keyword::Desc) {
            Order::Descending
        } else {
            self.take_keyword(Keyword::Asc);
            Order::Ascending
        };
        Ok(Ordering { column, ann, order })
    }
}

/// Of a column that is named twice the first place and the last order count.
fn take_ordering(order_by: &mut Vec<Ordering>, ordering: Ordering) {
    let same = |known: &&mut Ordering| known.column == ordering.column;
    match order_by.iter_mut().find(same) {
        Some(known) => *known = ordering,
        None => order_by.push(ordering),
    }
}

fn operation(operator: ArithmeticOperator, left: Selector, right: Selector) -> Selector {
    Selector::Operation {
        operator,
        left: Box::new(left),
        right: Box::new(right),
    }
}
