//! The parser of queries in SQL: `SELECT functions FROM table WHERE condition GROUP BY columns`.

use sqlparser::ast::{
    self, BinaryOperator, DuplicateTreatment, Expr, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, GroupByExpr, Ident, InTarget, Select, SelectFlavor,
    SelectItem, SetExpr, Statement, TableFactor, UnaryOperator,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Tokenizer};

use super::condition::{COMPARISONS_MAX, DEPTH_MAX};
use super::parse::{Argument, function, shortened};
use super::{Comparison, Condition, Function, Literal, Query};
use crate::QueryError;

/// Chains such as `a OR b OR c` nest an expression as deep as they are long.
const TOKENS_MAX: usize = 4_096;
/// The parser recurses up to its limit of 50 levels, and so does the destructor of long chains:
/// more than small threads may have.
const STACK_BYTES: usize = 16 << 20;

/// Whether a query begins as SQL does.
pub(super) fn is_sql(text: &str) -> bool {
    let word = text.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next();
    word.is_some_and(|word| word.eq_ignore_ascii_case("select"))
}

/// Parses a query in SQL, on a stack of its own.
pub(super) fn parse(text: &str) -> Result<Query, QueryError> {
    let no_thread = |reason: String| QueryError::Sql { reason };
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().stack_size(STACK_BYTES);
        let parser = parser.spawn_scoped(scope, || parsed(text));
        let parser = parser.map_err(|error| no_thread(format!("no thread reads it: {error}")))?;
        parser.join().unwrap_or_else(|_| Err(no_thread("its parser failed".into())))
    })
}

fn parsed(text: &str) -> Result<Query, QueryError> {
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, text).tokenize();
    let unreadable = |reason: &str| QueryError::Sql {
        reason: shortened(&reason.replace(char::is_control, " ")),
    };
    let tokens = tokens.map_err(|error| unreadable(&error.to_string()))?;
    let is_word = |token: &Token| !matches!(token, Token::Whitespace(_));
    let mut tokens: Vec<Token> = tokens.into_iter().filter(is_word).collect();
    if tokens.len() > TOKENS_MAX {
        return Err(QueryError::TooLong { what: "words and signs", most: TOKENS_MAX });
    }
    // `SELECT top(3, a)` is no `SELECT TOP 3`.
    for at in 1..tokens.len() {
        if let [Token::Word(word), Token::LParen] = &mut tokens[at - 1..=at]
            && word.keyword == Keyword::TOP
        {
            word.keyword = Keyword::NoKeyword;
        }
    }
    let statements = Parser::new(&dialect).with_tokens(tokens).parse_statements();
    let mut statements = statements.map_err(|error| match error {
        ParserError::TokenizerError(reason) | ParserError::ParserError(reason) => {
            unreadable(&reason)
        }
        ParserError::RecursionLimitExceeded => {
            QueryError::TooLong { what: "levels of a condition", most: DEPTH_MAX }
        }
    })?;
    match (statements.pop(), statements.is_empty()) {
        (Some(Statement::Query(query)), true) => of_query(*query),
        _ => Err(clause("a second statement")),
    }
}

fn clause(clause: impl Into<String>) -> QueryError {
    QueryError::Clause { clause: clause.into() }
}

fn of_query(query: ast::Query) -> Result<Query, QueryError> {
    let ast::Query {
        with,
        body,
        order_by,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    refuse([
        (with.is_some(), "WITH"),
        (order_by.is_some(), "ORDER BY"),
        (limit_clause.is_some(), "LIMIT or OFFSET"),
        (fetch.is_some(), "FETCH"),
        (!locks.is_empty() || for_clause.is_some(), "FOR"),
        (settings.is_some(), "SETTINGS"),
        (format_clause.is_some(), "FORMAT"),
        (!pipe_operators.is_empty(), "|>"),
    ])?;
    match *body {
        SetExpr::Select(select) => of_select(*select),
        SetExpr::SetOperation { op, .. } => Err(clause(op.to_string())),
        _ => Err(clause("a subquery")),
    }
}

fn refuse<const N: usize>(clauses: [(bool, &'static str); N]) -> Result<(), QueryError> {
    match clauses.into_iter().find(|(is_there, _)| *is_there) {
        Some((_, name)) => Err(clause(name)),
        None => Ok(()),
    }
}

fn of_select(select: Select) -> Result<Query, QueryError> {
    let Select {
        select_token: _,
        optimizer_hints,
        distinct,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having,
        named_window,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    let is_from_first = !matches!(flavor, SelectFlavor::Standard);
    refuse([
        (distinct.is_some(), "SELECT DISTINCT"),
        (top.is_some(), "TOP"),
        (into.is_some(), "INTO"),
        (having.is_some(), "HAVING"),
        (!named_window.is_empty(), "WINDOW"),
        (qualify.is_some(), "QUALIFY"),
        (!lateral_views.is_empty(), "LATERAL VIEW"),
        (prewhere.is_some(), "PREWHERE"),
        (!connect_by.is_empty(), "CONNECT BY"),
        (!cluster_by.is_empty(), "CLUSTER BY"),
        (!distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!sort_by.is_empty(), "SORT BY"),
        (exclude.is_some() || value_table_mode.is_some() || is_from_first, "a form of SELECT"),
        (!optimizer_hints.is_empty() || select_modifiers.is_some(), "a modifier of SELECT"),
    ])?;
    match &from[..] {
        [] => {}
        [one] if one.joins.is_empty() => match &one.relation {
            TableFactor::Table { args: None, sample: None, .. } => {}
            TableFactor::Table { sample: Some(_), .. } => return Err(clause("TABLESAMPLE")),
            TableFactor::Derived { .. } => return Err(clause("a subquery")),
            _ => return Err(clause("a table that isn't a name")),
        },
        _ => return Err(clause("JOIN")),
    }
    let by = match group_by {
        GroupByExpr::Expressions(columns, modifiers) if modifiers.is_empty() => columns
            .iter()
            .map(|column| of_column(column, "GROUP BY"))
            .collect::<Result<Vec<_>, _>>()?,
        GroupByExpr::Expressions(..) => return Err(clause("a modifier of GROUP BY")),
        GroupByExpr::All(_) => return Err(clause("GROUP BY ALL")),
    };
    let functions = functions(projection, &by)?;
    let filter = match selection {
        None => None,
        Some(condition) => {
            let mut comparisons = 0;
            let filter = of_condition(condition, 0, &mut comparisons)?;
            Some(filter)
        }
    };
    Ok(Query { functions, filter, by })
}

/// The functions of the columns of the answer. Columns of keys may stand among them: each row has
/// its key.
fn functions(projection: Vec<SelectItem>, by: &[String]) -> Result<Vec<Function>, QueryError> {
    let mut functions = Vec::new();
    for item in projection {
        match item {
            SelectItem::UnnamedExpr(Expr::Function(one)) => functions.push(of_function(one)?),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                if !by.contains(&name.value) {
                    let column = name.value;
                    return Err(clause(format!("the column {column:?} outside of GROUP BY")));
                }
            }
            SelectItem::ExprWithAlias { .. } | SelectItem::ExprWithAliases { .. } => {
                return Err(clause("AS"));
            }
            SelectItem::UnnamedExpr(_) => return Err(clause("an expression in SELECT")),
            _ => return Err(clause("SELECT *")),
        }
    }
    match functions.is_empty() {
        true => Err(QueryError::Function { given: "SELECT".into() }),
        false => Ok(functions),
    }
}

fn of_function(called: ast::Function) -> Result<Function, QueryError> {
    let ast::Function {
        name,
        uses_odbc_syntax,
        parameters,
        args,
        within_group,
        filter,
        null_treatment,
        over,
    } = called;
    refuse([
        (over.is_some(), "OVER"),
        (filter.is_some(), "FILTER"),
        (!within_group.is_empty(), "WITHIN GROUP"),
        (null_treatment.is_some(), "a treatment of NULL in a function"),
        (uses_odbc_syntax, "{fn }"),
        (!matches!(parameters, FunctionArguments::None), "a second list of arguments"),
    ])?;
    let name = name.to_string();
    let arguments = match args {
        FunctionArguments::None => Vec::new(),
        FunctionArguments::Subquery(_) => return Err(clause("a subquery")),
        FunctionArguments::List(FunctionArgumentList { duplicate_treatment, args, clauses }) => {
            refuse([(!clauses.is_empty(), "a clause in a function")])?;
            let is_distinct = duplicate_treatment == Some(DuplicateTreatment::Distinct);
            let arguments: Vec<Argument> =
                args.into_iter().map(argument).collect::<Result<_, _>>()?;
            match &arguments[..] {
                _ if !is_distinct => arguments,
                [Argument::Word(column) | Argument::Quoted(column)] => {
                    vec![Argument::Distinct(column.clone())]
                }
                _ => return Err(clause("DISTINCT of several columns")),
            }
        }
    };
    let is_distinct = matches!(&arguments[..], [Argument::Distinct(_)]);
    if is_distinct && !name.eq_ignore_ascii_case("count") {
        return Err(clause(format!("DISTINCT in {}", shortened(&name))));
    }
    function(&name, Some(&arguments))
        .ok_or_else(|| QueryError::Function { given: shortened(&name) })?
}

fn argument(argument: FunctionArg) -> Result<Argument, QueryError> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => Ok(Argument::Star),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name))) => Ok(match name {
            Ident { value, quote_style: None, .. } => Argument::Word(value),
            Ident { value, .. } => Argument::Quoted(value),
        }),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match value.value {
            ast::Value::Number(number, _) => Ok(Argument::Word(number)),
            _ => Err(clause("a text as an argument")),
        },
        _ => Err(clause("an expression in a function")),
    }
}

/// The name of a column.
fn of_column(expression: &Expr, place: &str) -> Result<String, QueryError> {
    match expression {
        Expr::Identifier(name) => Ok(name.value.clone()),
        Expr::Nested(inner) => of_column(inner, place),
        Expr::CompoundIdentifier(_) => {
            Err(clause(format!("a table's name before a column in {place}")))
        }
        Expr::Subquery(_) => Err(clause("a subquery")),
        _ => Err(clause(format!("an expression in {place}"))),
    }
}

/// A condition. `comparisons` counts the comparisons and the values of lists.
fn of_condition(
    expression: Expr,
    depth: usize,
    comparisons: &mut usize,
) -> Result<Condition, QueryError> {
    if depth > DEPTH_MAX {
        return Err(QueryError::TooLong { what: "levels of a condition", most: DEPTH_MAX });
    }
    let column = |expression: &Expr| of_column(expression, "WHERE");
    let negated_if = |negated: bool, condition: Condition| match negated {
        true => Condition::Not(Box::new(condition)),
        false => condition,
    };
    let more = match &expression {
        Expr::In { target: InTarget::List(list), .. } => list.len(),
        Expr::Between { .. } => 2,
        Expr::Nested(_) => 0,
        _ => 1,
    };
    *comparisons += more;
    if *comparisons > COMPARISONS_MAX {
        return Err(QueryError::TooLong { what: "comparisons", most: COMPARISONS_MAX });
    }
    Ok(match expression {
        Expr::Nested(inner) => of_condition(*inner, depth, comparisons)?,
        Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), left, right } => {
            // The parser nests chains on the left.
            *comparisons -= 1;
            let (mut left, mut all) = (*left, vec![*right]);
            loop {
                match left {
                    Expr::BinaryOp { op: same, left: next, right } if same == op => {
                        all.push(*right);
                        left = *next;
                    }
                    first => {
                        all.push(first);
                        break;
                    }
                }
            }
            let all = all.into_iter().rev().map(|one| of_condition(one, depth + 1, comparisons));
            let all = all.collect::<Result<Vec<_>, _>>()?;
            match op {
                BinaryOperator::And => Condition::And(all),
                _ => Condition::Or(all),
            }
        }
        Expr::BinaryOp { op, left, right } => {
            let comparison = comparison(&op).ok_or_else(|| clause(format!("{op} in WHERE")))?;
            let is_flipped = matches!(*left, Expr::Value(_) | Expr::UnaryOp { .. });
            let (named, value) = if is_flipped { (&right, &left) } else { (&left, &right) };
            let comparison = if is_flipped { flipped(comparison) } else { comparison };
            Condition::Compare { column: column(named)?, comparison, with: literal(value)? }
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            Condition::Not(Box::new(of_condition(*expr, depth + 1, comparisons)?))
        }
        Expr::IsNull(of) => Condition::IsNull { column: column(&of)? },
        Expr::IsNotNull(of) => negated_if(true, Condition::IsNull { column: column(&of)? }),
        Expr::In { expr, target: InTarget::List(list), negated, global: false } => {
            let values = list.iter().map(literal).collect::<Result<Vec<_>, _>>()?;
            negated_if(negated, Condition::In { column: column(&expr)?, values })
        }
        Expr::Between { expr, negated, low, high } => {
            let of = |comparison, with: &Expr| {
                let (column, with) = (column(&expr)?, literal(with)?);
                Ok::<_, QueryError>(Condition::Compare { column, comparison, with })
            };
            let low = of(Comparison::GreaterOrEqual, &low)?;
            negated_if(negated, Condition::And(vec![low, of(Comparison::LessOrEqual, &high)?]))
        }
        Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
            let Literal::Text(pattern) = literal(&pattern)? else {
                return Err(clause("LIKE with a number"));
            };
            negated_if(negated, Condition::Like { column: column(&expr)?, pattern })
        }
        Expr::Like { .. } => return Err(clause("ESCAPE or ANY after LIKE")),
        Expr::ILike { .. } => return Err(clause("ILIKE")),
        Expr::In { .. } | Expr::Subquery(_) | Expr::Exists { .. } => {
            return Err(clause("a subquery"));
        }
        Expr::Identifier(name) => {
            let name = name.value;
            return Err(clause(format!("the column {name:?} without a comparison in WHERE")));
        }
        _ => return Err(clause("an expression in WHERE")),
    })
}

fn comparison(operator: &BinaryOperator) -> Option<Comparison> {
    Some(match operator {
        BinaryOperator::Eq => Comparison::Equal,
        BinaryOperator::NotEq => Comparison::NotEqual,
        BinaryOperator::Lt => Comparison::Less,
        BinaryOperator::LtEq => Comparison::LessOrEqual,
        BinaryOperator::Gt => Comparison::Greater,
        BinaryOperator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// The comparison with its sides exchanged.
fn flipped(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        same => same,
    }
}

/// A number or a text.
fn literal(expression: &Expr) -> Result<Literal, QueryError> {
    let number = |text: &str, sign: f64| {
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        let number = number.ok_or_else(|| clause(format!("the number {}", shortened(text))));
        number.map(|number| Literal::Number(sign * number))
    };
    let wrong = || clause("a comparison with anything but a number or a 'text' in WHERE");
    match expression {
        Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => number(text, 1.0),
            ast::Value::SingleQuotedString(text) => Ok(Literal::Text(text.clone())),
            ast::Value::Null => Err(clause("a comparison with NULL (write IS NULL) in WHERE")),
            _ => Err(wrong()),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match &**expr {
            Expr::Value(value) => match &value.value {
                ast::Value::Number(text, _) => number(text, -1.0),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        },
        Expr::Subquery(_) => Err(clause("a subquery")),
        Expr::Identifier(name) if name.quote_style == Some('"') => {
            let name = &name.value;
            Err(clause(format!("a comparison of two columns (write '{name}' for a text) in WHERE")))
        }
        Expr::Identifier(_) => Err(clause("a comparison of two columns in WHERE")),
        _ => Err(wrong()),
    }
}
