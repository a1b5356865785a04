//! The cells of a run, and the order in which they are measured.

use super::Args;
use super::row::Cell;
use super::scheme::Scheme;

/// All cells, each once and in the order of the tables: of each round, exact traffic alone and then
/// all schemes.
pub fn cells(args: &Args) -> Vec<Cell> {
    let mut cells = Vec::new();
    for round in 1..=args.rounds {
        let cell = |scheme, msr, load| Cell {
            scheme,
            msr,
            error: None,
            load,
            round,
            seconds: args.seconds,
            rate_bits_per_s: 8 * args.rate,
            value_bytes: args.value_bytes,
            engine: args.engine,
        };
        cells.push(Cell { seconds: 0, ..cell(None, None, 0.0) });
        for &load in &args.loads {
            for &scheme in &args.schemes {
                match scheme.samples() {
                    true => cells
                        .extend(args.msrs.iter().map(|&msr| cell(Some(scheme), Some(msr), load))),
                    false => cells.push(cell(Some(scheme), None, load)),
                }
                if scheme == Scheme::Atp {
                    cells.extend(args.errors.iter().map(|&error| Cell {
                        error: Some(error),
                        ..cell(Some(scheme), None, load)
                    }));
                }
            }
        }
    }
    let mut distinct = Vec::new();
    for cell in cells {
        if !distinct.contains(&cell) {
            distinct.push(cell);
        }
    }
    distinct
}

/// The order of measurement. Rounds come one after the other. In a round, the schemes of a load and
/// an MSR are neighbors, and each round begins at another cell. A drift of the machine then hits
/// all schemes alike.
pub fn interleaved(cells: &[Cell]) -> Vec<&Cell> {
    let rounds = cells.iter().map(|cell| cell.round).max().unwrap_or(1) as usize;
    let of_round = |round: usize| {
        let mut cells: Vec<&Cell> =
            cells.iter().filter(|cell| cell.round as usize == round).collect();
        let all = 1.0;
        cells.sort_by(|one, other| {
            let msrs = (one.msr.unwrap_or(all), other.msr.unwrap_or(all));
            one.load.total_cmp(&other.load).then(msrs.0.total_cmp(&msrs.1))
        });
        let first = cells.len() * (round - 1) / rounds;
        cells.rotate_left(first);
        cells
    };
    (1..=rounds).flat_map(of_round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_line::parse_line;

    fn cells_of(line: &str) -> Vec<Cell> {
        cells(&parse_line::<Args>(line).unwrap())
    }

    #[test]
    fn cells__tcp_full_has_no_msr() {
        let cells = cells_of("");
        let count = |scheme| cells.iter().filter(|cell| cell.scheme == scheme).count();
        assert_eq!(count(Some(Scheme::Atp)), 3 * 3);
        assert_eq!(count(Some(Scheme::TcpSample)), 3 * 3);
        assert_eq!(count(Some(Scheme::TcpFull)), 3);
        assert_eq!(count(None), 1);
    }

    #[test]
    fn cells__each_once() {
        let line = "--schemes atp,atp --msrs 0.5,0.5 --loads 1.5 --rounds 2";
        let names: Vec<String> = cells_of(line).iter().map(Cell::name).collect();
        let expected = [
            "round 1, exact traffic alone",
            "round 1, load 1.5, atp, MSR 0.5",
            "round 2, exact traffic alone",
            "round 2, load 1.5, atp, MSR 0.5",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn cells__an_accepted_error_is_for_atp() {
        let cells = cells_of("--msrs 0.5 --errors 0.02 --loads 1.1 --schemes tcp-sample,atp");
        let names: Vec<String> = cells.iter().map(Cell::name).collect();
        let expected = ["tcp-sample, MSR 0.5", "atp, MSR 0.5", "atp, error 2 %"];
        assert_eq!(names[1..], expected.map(|name| format!("round 1, load 1.1, {name}")));
    }

    #[test]
    fn interleaved__schemes_are_neighbors_and_rounds_begin_elsewhere() {
        let cells = cells_of("--msrs 0.5,0.8 --loads 0.5 --rounds 2");
        let names: Vec<String> = interleaved(&cells).into_iter().map(Cell::name).collect();
        let round = [
            "exact traffic alone",
            "load 0.5, atp, MSR 0.5",
            "load 0.5, tcp-sample, MSR 0.5",
            "load 0.5, atp, MSR 0.8",
            "load 0.5, tcp-sample, MSR 0.8",
            "load 0.5, tcp-full",
        ];
        let second = [&round[3..], &round[..3]].concat();
        let first = round.iter().map(|name| format!("round 1, {name}"));
        let expected = first.chain(second.iter().map(|name| format!("round 2, {name}")));
        assert_eq!(names, expected.collect::<Vec<_>>());
    }
}
