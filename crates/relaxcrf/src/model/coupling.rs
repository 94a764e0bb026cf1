//! What couples the pixels: the kernels and the label costs that go with them.

use std::sync::Arc;

use super::compatibility::{Compatibility, MOST_LABELS};
use super::kernel::Grid;
use super::kernel_cost::{KernelCost, common_cost, mean_cost};
use super::pairwise::{Pairwise, Term, TermPlan};
use crate::error::{Error, Result};
use relaxcrf_filter::{Workspace, reduce};

/// The pairwise part of a model. Immutable and shared between models with other unary energies.
#[derive(Debug, Clone)]
pub(super) struct Coupling {
    pub pairwise: Arc<Pairwise>,
    /// The label cost of all kernels, or the mean of their costs.
    pub compatibility: Compatibility,
    /// The label cost of each kernel, if no single cost stands for them all.
    pub costs: Option<Arc<Vec<KernelCost>>>,
    /// The label cost of kernels without a cost of their own.
    shared: Compatibility,
    /// Whether every pixel counts as its own neighbour.
    pub self_pairs: bool,
    /// The diagonal of each kernel, if kernels have costs of their own.
    diagonals: Arc<Vec<Vec<f32>>>,
    plan: TermPlan,
}

impl Coupling {
    /// Puts kernels together. Fails if they would overflow.
    pub fn new(
        grid: Grid,
        terms: Vec<Arc<Term>>,
        plan: TermPlan,
        shared: Compatibility,
        self_pairs: bool,
    ) -> Result<Self> {
        let empty = Pairwise::new(grid, Vec::new(), Vec::new(), plan.normalization);
        Self::of_terms(&empty, terms, plan, shared, self_pairs)
    }

    fn of_terms(
        before: &Pairwise,
        terms: Vec<Arc<Term>>,
        plan: TermPlan,
        shared: Compatibility,
        self_pairs: bool,
    ) -> Result<Self> {
        let stated: Vec<&KernelCost> = terms.iter().map(|t| &t.options().cost).collect();
        let (compatibility, factors, costs) = match common_cost(&shared, &stated) {
            Some((common, factors)) => (common, factors, None),
            None if shared.labels() > MOST_LABELS => {
                let most = format!("1 to {MOST_LABELS} where label costs differ between kernels");
                return Err(Error::value("number of labels", shared.labels(), most));
            }
            None => {
                let costs: Vec<KernelCost> = stated.iter().map(|cost| cost.resolve(&shared)).collect();
                let weighted: Vec<_> = costs.iter().cloned().zip(terms.iter().map(|t| t.gain())).collect();
                let factors = vec![1.0; terms.len()];
                (mean_cost(shared.labels(), &weighted)?, factors, Some(Arc::new(costs)))
            }
        };
        let pairwise = Arc::new(before.with_terms(terms, factors));
        let count = costs.as_ref().map_or(0, |costs| costs.len());
        let diagonals = Arc::new((0..count).map(|m| pairwise.term_diagonal(m)).collect());
        let coupling = Self { pairwise, compatibility, costs, shared, self_pairs, diagonals, plan };
        check_strength(&coupling.pairwise, coupling.largest_cost())?;
        Ok(coupling)
    }

    /// The same with one more kernel; the other kernels' filters are shared.
    pub fn with_kernel(&self, kernel: super::Kernel, options: super::KernelOptions) -> Result<Self> {
        options.cost.check(self.shared.labels())?;
        let term = Term::new(self.pairwise.grid(), kernel, options, self.plan)?;
        let terms = self.pairwise.terms().iter().cloned().chain([Arc::new(term)]).collect();
        Self::of_terms(&self.pairwise, terms, self.plan, self.shared.clone(), self.self_pairs)
    }

    /// The same kernels behind other filters.
    pub fn with_filter(&self, filter: super::FilterKind) -> Result<Self> {
        let grid = self.pairwise.grid();
        let plan = TermPlan { filter, calibrated: None, ..self.plan };
        let terms = self.pairwise.terms().iter();
        let terms =
            terms.map(|t| Ok(Arc::new(Term::new(grid, t.kernel().clone(), t.options().clone(), plan)?)));
        let terms = terms.collect::<Result<_>>()?;
        Self::of_terms(&self.pairwise, terms, plan, self.shared.clone(), self.self_pairs)
    }

    /// The same for some of the labels, in the order given.
    pub fn restrict(&self, keep: &[usize]) -> Result<Self> {
        let costs =
            self.costs.as_ref().map(|all| all.iter().map(|c| c.restrict(keep)).collect::<Result<_>>());
        Ok(Self {
            compatibility: self.compatibility.restrict(keep)?,
            costs: costs.transpose()?.map(Arc::new),
            shared: self.shared.restrict(keep)?,
            ..self.clone()
        })
    }

    /// The same with another label cost of all kernels.
    pub fn with_costs(&self, compatibility: Compatibility) -> Self {
        Self { shared: compatibility.clone(), compatibility, costs: None, ..self.clone() }
    }

    /// The same with another operator in place of the kernels.
    pub fn with_pairwise(&self, pairwise: Pairwise) -> Self {
        Self { pairwise: Arc::new(pairwise), ..self.clone() }
    }

    /// The largest |μ(i, j)| of any kernel.
    pub fn largest_cost(&self) -> f32 {
        match &self.costs {
            None => self.compatibility.largest_cost(),
            Some(costs) => costs.iter().fold(0.0, |m, c| m.max(c.largest_cost())),
        }
    }

    /// Whether two pixels of the same label cost nothing, or self pairs count: nothing has to be taken off for them.
    pub fn has_no_self_costs(&self) -> bool {
        self.self_pairs || self.has_zero_diagonal()
    }

    /// Whether equal labels cost nothing.
    pub fn has_zero_diagonal(&self) -> bool {
        match &self.costs {
            None => self.compatibility.has_zero_diagonal(),
            Some(costs) => costs.iter().all(KernelCost::has_zero_diagonal),
        }
    }

    /// `out = Σ_m μ_m K_m y`, for rows of all labels.
    pub fn messages(
        &self,
        costs: &[KernelCost],
        y: &[f32],
        labels: usize,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        out.fill(0.0);
        let mut product = vec![0.0; y.len()];
        for (m, cost) in costs.iter().enumerate() {
            self.pairwise.apply_term(m, y, labels, &mut product, workspace);
            add_messages(cost, &product, labels, out);
        }
    }

    /// The same with the costs as they were stated, where a Potts cost α counts as -α for equal labels.
    pub fn common_code_messages(&self, y: &[f32], labels: usize, out: &mut [f32], workspace: &mut Workspace) {
        out.fill(0.0);
        let mut product = vec![0.0; y.len()];
        for (m, term) in self.pairwise.terms().iter().enumerate() {
            let cost = match term.options().cost.resolve(&self.shared) {
                KernelCost::Potts(scale) => KernelCost::Diagonal(vec![-scale; labels]),
                other => other,
            };
            self.pairwise.apply_stated_term(m, y, labels, &mut product, workspace);
            add_messages(&cost, &product, labels, out);
        }
    }

    /// `Σ_m K_m,aa μ_m(i, i)`: what label i costs a pixel as its own neighbour.
    pub fn self_cost(&self, a: usize, i: usize) -> f32 {
        match &self.costs {
            None => self.pairwise.diagonal()[a] * self.compatibility.cost(i, i),
            Some(costs) => costs.iter().zip(&*self.diagonals).map(|(cost, k)| k[a] * cost.cost(i, i)).sum(),
        }
    }

    /// `Σ_ij K_aa y_i μ(i, j) y_j`: what self pairs add at a pixel with beliefs `y`.
    pub fn self_value(&self, a: usize, y: &[f32]) -> f64 {
        let value = |cost: &dyn Fn(usize, usize) -> f32| -> f64 {
            let row = |i: usize| y.iter().enumerate().map(|(j, &v)| cost(i, j) * v).sum::<f32>();
            y.iter().enumerate().map(|(i, &v)| f64::from(v) * f64::from(row(i))).sum()
        };
        match &self.costs {
            None => f64::from(self.pairwise.diagonal()[a]) * value(&|i, j| self.compatibility.cost(i, j)),
            Some(costs) => {
                let parts = costs.iter().zip(&*self.diagonals);
                parts.map(|(cost, k)| f64::from(k[a]) * value(&|i, j| cost.cost(i, j))).sum()
            }
        }
    }

    /// `Σ_ab K_ab μ(i, i)` for every label i, self pairs included.
    pub fn pairs_of_constants(&self, labels: usize) -> Vec<f64> {
        match &self.costs {
            None => {
                let sum = reduce::sum(self.pairwise.row_sums());
                (0..labels).map(|i| f64::from(self.compatibility.cost(i, i)) * sum).collect()
            }
            Some(costs) => {
                let sums: Vec<f64> = (0..costs.len()).map(|m| reduce::sum(&self.row_sums_of(m))).collect();
                let of =
                    |i: usize| costs.iter().zip(&sums).map(|(c, sum)| f64::from(c.cost(i, i)) * sum).sum();
                (0..labels).map(of).collect()
            }
        }
    }

    /// Row sums of one kernel.
    pub fn row_sums_of(&self, m: usize) -> Vec<f32> {
        let points = self.pairwise.points();
        let mut sums = vec![0.0; points];
        self.pairwise.apply_term(m, &vec![1.0; points], 1, &mut sums, &mut Workspace::new());
        sums
    }
}

/// `out += μ product`, row by row.
fn add_messages(cost: &KernelCost, product: &[f32], labels: usize, out: &mut [f32]) {
    reduce::for_rows(out, labels, |first, rows| {
        let mut work = vec![0.0; labels];
        let products = product[first * labels..].chunks_exact(labels);
        for (row, product) in rows.chunks_exact_mut(labels).zip(products) {
            cost.multiply_add(product, row, &mut work);
        }
        0.0
    });
}

/// Fails if what the neighbours of a pixel cost in all would overflow when solvers add it up over labels.
fn check_strength(pairwise: &Pairwise, cost: f32) -> Result<()> {
    const LARGEST: f32 = 1e30;
    // A bound far below saves a filter call.
    if pairwise.row_sum_bound() * cost.max(1.0) < 1e-6 * LARGEST {
        return Ok(());
    }
    let sum = pairwise.row_sums().iter().copied().fold(0.0, f32::max);
    let finite = pairwise.row_sums().iter().all(|s| s.is_finite());
    if finite && sum.max(1.0) * cost.max(1.0) <= LARGEST {
        return Ok(());
    }
    Err(Error::value(
        "strength of the pairwise term",
        format!("{sum:e} for the kernels of a pixel times {cost:e} for the label costs"),
        format!("at most {LARGEST:e} (make weights and costs smaller)"),
    ))
}
