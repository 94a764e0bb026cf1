//! The family of quadratic energies that the QP and DC methods move in.
//!
//! For any c_a, the function
//!
//! `E_c(y) = <φ, y> + Σ_ab K_ab y_a' μ y_b + Σ_a c_a (y_a' C y_a - <diag C, y_a>)`
//!
//! agrees with the energy on every labelling, because the last sum vanishes there (self pairs are in K; φ is
//! [`Model::linear`]). Between labellings c decides its shape. With C = -μ for conditionally negative
//! compatibilities (C = I for Potts, up to a constant):
//!
//! * c_a = K_aa gives the plain QP relaxation, which counts no self pairs;
//! * c_a = Σ_b K_ab gives a convex function, `½ Σ_ab K_ab |y_a - y_b|²` for Potts: the convex QP;
//! * between them lies a homotopy from convex to tight.
//!
//! For other compatibilities C is a diagonal matrix that dominates μ, which is shifted first so that as
//! little as possible needs dominating.

use crate::model::{KernelCost, Model};
use relaxcrf_filter::reduce::{self, RowValue};

/// How μ and C enter.
#[derive(Debug, Clone)]
enum Form {
    /// C = -μ.
    Negative,
    /// μ is replaced by μ - u 1' - 1 u', and C = diag(m) with m_i the absolute row sums of that.
    Dominated { u: Vec<f32>, m: Vec<f32> },
    /// Every kernel has a label cost μ_k of its own, replaced by μ_k - 2 u_k 11'; C = diag(m) with m_i the largest of their
    /// absolute row sums. Since beliefs sum to one, the shifts move `shift_a = Σ_k 2 u_k (K_k 1)_a` to the linear part.
    /// What is filtered holds the costs already.
    PerKernel { shift: Vec<f32>, m: Vec<f32> },
}

/// E_c without its c: that is given row by row.
#[derive(Debug, Clone)]
pub(crate) struct Quadratic<'m> {
    model: &'m Model,
    form: Form,
    /// Largest eigenvalue of C over directions that sum to zero.
    curvature: f32,
    /// Whether equal labels cost nothing.
    zero_diagonal: bool,
}

/// Labels up to which rows of temporary numbers are kept on the stack.
const STACK_LABELS: usize = 128;

/// Does work with a row of temporary numbers.
#[inline(always)]
fn with_row(labels: usize, work: impl FnOnce(&mut [f32])) {
    if labels <= STACK_LABELS {
        work(&mut [0.0; STACK_LABELS][..labels]);
    } else {
        work(&mut vec![0.0; labels]);
    }
}

impl<'m> Quadratic<'m> {
    /// The tightest form that fits the model's compatibility.
    pub fn new(model: &'m Model) -> Self {
        let mu = model.compatibility();
        if mu.is_conditionally_negative() && !model.has_kernel_costs() {
            let curvature = if mu.is_potts() { 1.0 } else { mu.concavity() as f32 };
            let curvature = curvature.max(f32::MIN_POSITIVE);
            return Self { model, form: Form::Negative, curvature, zero_diagonal: mu.has_zero_diagonal() };
        }
        Self::dominated(model)
    }

    /// The form that is valid for any symmetric compatibility.
    pub fn dominated(model: &'m Model) -> Self {
        if let Some(costs) = model.kernel_costs() {
            return Self::per_kernel(model, costs);
        }
        let costs = model.compatibility();
        let (u, m) = dominate(costs.labels(), |i, j| costs.cost(i, j));
        let (u, m) = (vec![u; costs.labels()], m);
        let curvature = m.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        let zero_diagonal = model.compatibility().has_zero_diagonal();
        Self { model, form: Form::Dominated { u, m }, curvature, zero_diagonal }
    }

    fn per_kernel(model: &'m Model, costs: &[KernelCost]) -> Self {
        let (mut shift, mut m) = (vec![0.0f32; model.pixels()], vec![0.0f32; model.labels()]);
        for (k, cost) in costs.iter().enumerate() {
            let (u, sums) = dominate(model.labels(), |i, j| cost.cost(i, j));
            shift.iter_mut().zip(model.row_sums_of(k)).for_each(|(s, sum)| *s += 2.0 * u * sum);
            m.iter_mut().zip(sums).for_each(|(m, sum)| *m = m.max(sum));
        }
        let curvature = m.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        Self { model, form: Form::PerKernel { shift, m }, curvature, zero_diagonal: false }
    }

    /// The problem.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// The number of labels.
    pub fn labels(&self) -> usize {
        self.model.labels()
    }

    /// Factor of `c_a` in the curvature: `E_c`'s own quadratic part is at most `c_a · curvature · |y_a|²`.
    pub fn curvature(&self) -> f32 {
        self.curvature
    }

    /// A factor f such that the gradient of the convex member (c the row sums) changes by at most `f c_a` per
    /// unit of y_a, in the sense of a diagonal metric.
    ///
    /// Its quadratic part is `c C + μ K`. With C = -μ that is `(c - K)` times C: between 0 and c for a
    /// positive semi-definite K, and a lattice is one up to a few parts in ten thousand. With a dominating C
    /// the two parts may add up.
    pub fn lipschitz(&self) -> f32 {
        match self.form {
            Form::Negative => 2.05 * self.curvature,
            Form::Dominated { .. } | Form::PerKernel { .. } => 4.0 * self.curvature,
        }
    }

    /// `out += by (2 C y_a - diag C)`: the change of the gradient when c_a grows by `by`.
    #[inline(always)]
    pub fn add_change(&self, y: &[f32], by: f32, out: &mut [f32], work: &mut [f32]) {
        let mu = self.model.compatibility();
        match &self.form {
            Form::Negative if mu.is_potts() => {
                let sum = reduce::row_sum([y], |[v]| v);
                for (o, &v) in out.iter_mut().zip(y) {
                    *o -= 2.0 * by * (sum - v);
                }
            }
            Form::Negative => {
                mu.multiply(y, work);
                for (i, (o, &w)) in out.iter_mut().zip(work.iter()).enumerate() {
                    *o += by * (mu.cost(i, i) - 2.0 * w);
                }
            }
            Form::Dominated { m, .. } | Form::PerKernel { m, .. } => {
                for ((o, &v), &m) in out.iter_mut().zip(y).zip(m) {
                    *o += by * m * (2.0 * v - 1.0);
                }
            }
        }
    }

    /// `out = μ (K y)_a + c C y_a`: half the gradient's quadratic part.
    #[inline(always)]
    pub fn product(&self, a: usize, filtered: &[f32], y: &[f32], c: f32, out: &mut [f32]) {
        let mu = self.model.compatibility();
        match &self.form {
            Form::Negative if mu.is_potts() => {
                let sum: f32 = filtered.iter().zip(y).map(|(&k, &v)| k - c * v).sum();
                for ((o, &k), &v) in out.iter_mut().zip(filtered).zip(y) {
                    *o = sum - (k - c * v);
                }
            }
            Form::Negative => {
                with_row(y.len(), |w| {
                    for ((w, &k), &v) in w.iter_mut().zip(filtered).zip(y) {
                        *w = k - c * v;
                    }
                    mu.multiply(w, out);
                });
            }
            Form::Dominated { u, m } => {
                mu.multiply(filtered, out);
                let sum: f32 = filtered.iter().sum();
                let shifted: f32 = filtered.iter().zip(u).map(|(&k, &u)| k * u).sum();
                for (((o, &v), &u), &m) in out.iter_mut().zip(y).zip(u).zip(m) {
                    *o += c * m * v - u * sum - shifted;
                }
            }
            Form::PerKernel { shift, m } => {
                // The shift of a row that does not sum to one, such as a direction, is in proportion to its sum.
                let shift = shift[a] * y.iter().sum::<f32>();
                for (((o, &k), &v), &m) in out.iter_mut().zip(filtered).zip(y).zip(m) {
                    *o = k + c * m * v - shift;
                }
            }
        }
    }

    /// The linear part at pixel `a`, label `i`: φ, less what C takes away, plus what the shift of μ moved there.
    pub fn linear(&self, a: usize, i: usize, c: f32) -> f32 {
        let given = self.model.linear()[a * self.model.labels() + i];
        match &self.form {
            Form::Negative => given + c * self.model.compatibility().cost(i, i),
            Form::Dominated { u, m } => given + 2.0 * self.model.pairwise().row_sums()[a] * u[i] - c * m[i],
            Form::PerKernel { shift, m } => given + shift[a] - c * m[i],
        }
    }

    /// Writes the gradient row at pixel `a` and returns the pixel's share of E_c.
    #[inline(always)]
    pub fn gradient(&self, a: usize, filtered: &[f32], y: &[f32], c: f32, out: &mut [f32]) -> Share {
        if self.model.compatibility().is_potts() && !self.model.has_kernel_costs() {
            return self.potts_gradient(a, filtered, y, c, out);
        }
        self.any_gradient(a, filtered, y, c, out)
    }

    #[inline(always)]
    fn any_gradient(&self, a: usize, filtered: &[f32], y: &[f32], c: f32, out: &mut [f32]) -> Share {
        let labels = y.len();
        self.product(a, filtered, y, c, out);
        if matches!(self.form, Form::Negative) && self.zero_diagonal {
            let given = &self.model.linear()[a * labels..(a + 1) * labels];
            let pairs = reduce::row_sum([y, &*out], |[v, o]| v * o);
            let linear = reduce::row_sum([y, given], |[v, e]| v * e);
            for (o, &e) in out.iter_mut().zip(given) {
                *o = e + 2.0 * *o;
            }
            return Share { linear: f64::from(linear), pairs: f64::from(pairs) };
        }
        let mut share = Share { linear: 0.0, pairs: 0.0 };
        for (i, (o, &v)) in out.iter_mut().zip(y).enumerate() {
            let linear = self.linear(a, i, c);
            share.linear += f64::from(v) * f64::from(linear);
            share.pairs += f64::from(v) * f64::from(*o);
            *o = linear + 2.0 * *o;
        }
        share
    }

    /// [`Quadratic::gradient`] for Potts, where μ w is the sum of w less w: plain loops over the labels.
    #[inline(always)]
    fn potts_gradient(&self, a: usize, filtered: &[f32], y: &[f32], c: f32, out: &mut [f32]) -> Share {
        let labels = y.len();
        let linear = &self.model.linear()[a * labels..(a + 1) * labels];
        let (filtered, out) = (&filtered[..labels], &mut out[..labels]);
        let sum = reduce::row_sum([filtered, y], |[k, v]| k - c * v);
        for i in 0..labels {
            out[i] = sum - (filtered[i] - c * y[i]);
        }
        let pairs = reduce::row_sum([y, &*out], |[v, o]| v * o);
        for i in 0..labels {
            out[i] = linear[i] + 2.0 * out[i];
        }
        let linear = reduce::row_sum([y, linear], |[v, e]| v * e);
        Share { linear: f64::from(linear), pairs: f64::from(pairs) }
    }

    /// E_c(y), given K y and c.
    pub fn value(&self, y: &[f32], filtered: &[f32], c: &[f32]) -> f64 {
        let labels = self.model.labels();
        let value = Value { quadratic: self, y, filtered, c };
        reduce::sum_by_rows(y.len() / labels, labels, value)
    }
}

/// A pixel's share of E_c(y).
pub(crate) struct Share {
    /// Of the linear part.
    pub linear: f64,
    /// Of the quadratic part. By itself, because bounds are made of it: as the difference of larger numbers it would bring
    /// their rounding along, which energies far from zero have plenty of.
    pub pairs: f64,
}

impl Share {
    #[inline(always)]
    pub fn value(&self) -> f64 {
        self.linear + self.pairs
    }
}

/// The pixels' shares of E_c(y).
struct Value<'a> {
    quadratic: &'a Quadratic<'a>,
    y: &'a [f32],
    filtered: &'a [f32],
    c: &'a [f32],
}

impl RowValue for Value<'_> {
    #[inline(always)]
    fn value(&self, a: usize, row: &mut [f32]) -> f64 {
        let range = a * row.len()..(a + 1) * row.len();
        self.quadratic.gradient(a, &self.filtered[range.clone()], &self.y[range], self.c[a], row).value()
    }
}

/// The shift u (one number for all labels) that leaves the smallest absolute row sums, and these sums.
fn dominate(labels: usize, cost: impl Fn(usize, usize) -> f32) -> (f32, Vec<f32>) {
    // The sum of all absolute values is smallest at a median of the entries.
    let mut entries: Vec<f32> = (0..labels * labels).map(|k| cost(k / labels, k % labels)).collect();
    entries.sort_by(f32::total_cmp);
    let u = 0.5 * entries[entries.len() / 2];
    let row_sum = |i: usize| (0..labels).map(|j| (cost(i, j) - 2.0 * u).abs()).sum();
    (u, (0..labels).map(row_sum).collect())
}

/// A pixel without neighbours has no curvature of its own; this keeps its steps finite.
pub(crate) fn smallest_curvature(model: &Model) -> f32 {
    (1e-6 * model.scale() / model.pixels() as f64) as f32 + f32::MIN_POSITIVE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Compatibility, FilterKind, ModelBuilder, Normalization};
    use crate::{Beliefs, Labeling, energy};

    fn model(mu: Compatibility) -> Model {
        let labels = mu.labels();
        let numbers = |n: usize, k: f32| (0..n).map(|i| ((i as f32 + 1.3) * k).sin()).collect::<Vec<_>>();
        ModelBuilder::points(6, labels)
            .unary(numbers(6 * labels, 1.7))
            .features(numbers(12, 2.9), 2, 0.8)
            .compatibility(mu)
            .filter(FilterKind::Exact)
            .normalization(Normalization::None)
            .build()
            .unwrap()
    }

    fn compatibilities() -> Vec<Compatibility> {
        vec![
            Compatibility::potts(3),
            Compatibility::linear(4, Some(2.0)).unwrap(),
            Compatibility::matrix(3, vec![0.5, 1.0, 2.0, 1.0, 0.0, 0.3, 2.0, 0.3, -0.2]).unwrap(),
            Compatibility::matrix(2, vec![0.0, -1.0, -1.0, 0.0]).unwrap(),
        ]
    }

    fn filtered(model: &Model, y: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; y.len()];
        let forward = relaxcrf_filter::Direction::Forward;
        model.pairwise().apply(forward, y, model.labels(), &mut out, &mut relaxcrf_filter::Workspace::new());
        out
    }

    #[test]
    fn every_member_agrees_with_the_energy_on_labellings() {
        for mu in compatibilities() {
            let model = model(mu);
            for form in [Quadratic::new(&model), Quadratic::dominated(&model)] {
                for c in [0.0, 0.3, 2.5] {
                    for code in 0..20u16 {
                        let x = Labeling::new(
                            (0..6).map(|a| (code * (a + 3) + a) % model.labels() as u16).collect(),
                        );
                        let y = Beliefs::from_labeling(&x, model.labels());
                        let got = form.value(y.as_slice(), &filtered(&model, y.as_slice()), &[c; 6]);
                        let want = energy::of_labeling(&model, &x).unwrap().total();
                        assert!((got - want).abs() < 1e-4, "{got} against {want}");
                    }
                }
            }
        }
    }

    #[test]
    fn vector_code_gives_the_bits_of_scalar_code() {
        use crate::methods::Pipeline;
        use crate::run::Solve;
        use crate::solver::Settings;
        use relaxcrf_filter::simd::without_vectors;
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        for labels in [2, 5, 8, 11, 21, 32, 33, 45] {
            let mut mu = vec![Compatibility::potts(labels)];
            mu.extend(Compatibility::linear(labels, None));
            for mu in mu {
                let model = model(mu);
                for method in ["qp", "qp:fw", "dc-neg", "dc-gen", "graduated:steps=6", "smooth-lp", "prox-lp"]
                {
                    let run = |scalar: bool| {
                        one_thread.install(|| {
                            let pipeline: Pipeline = method.parse().unwrap();
                            let settings = Settings { max_iterations: Some(9), ..Settings::default() };
                            let found =
                                || Solve::new(&model).method(&pipeline).settings(&settings).run().unwrap();
                            if scalar { without_vectors(found) } else { found() }
                        })
                    };
                    let (vector, scalar) = (run(false), run(true));
                    assert_eq!(vector.beliefs, scalar.beliefs, "{method}, {labels} labels");
                    assert_eq!(
                        vector.lower_bound.map(|b| b.value.to_bits()),
                        scalar.lower_bound.map(|b| b.value.to_bits()),
                        "{method}, {labels} labels"
                    );
                }
            }
        }
    }

    #[test]
    fn gradient_is_the_derivative_and_row_sums_make_it_convex() {
        for mu in compatibilities() {
            let model = model(mu);
            let labels = model.labels();
            for form in [Quadratic::new(&model), Quadratic::dominated(&model)] {
                let c = model.pairwise().row_sums();
                let y = Beliefs::uniform(6, labels).into_vec();
                let value = |y: &[f32]| form.value(y, &filtered(&model, y), c);
                let ky = filtered(&model, &y);
                let mut row = vec![0.0; labels];
                for a in 0..6 {
                    form.gradient(a, &ky[a * labels..][..labels], &y[a * labels..][..labels], c[a], &mut row);
                    for i in 1..labels {
                        // Along a direction that stays on the simplex.
                        let h = 1e-2;
                        let moved = |h: f32| {
                            let mut z = y.clone();
                            z[a * labels] -= h;
                            z[a * labels + i] += h;
                            z
                        };
                        let (plus, minus) = (value(&moved(h)), value(&moved(-h)));
                        let slope = (plus - minus) / (2.0 * f64::from(h));
                        assert!((slope - f64::from(row[i] - row[0])).abs() < 1e-3, "{slope} {row:?}");
                        assert!(plus + minus >= 2.0 * value(&y) - 1e-5, "convex");
                    }
                }
            }
        }
    }

    #[test]
    fn the_convex_gradient_changes_by_no_more_than_told() {
        let strong =
            |entries: &[f32]| Compatibility::matrix(2, entries.iter().map(|e| 10.0 * e).collect()).unwrap();
        let mut kinds = compatibilities();
        kinds.extend([strong(&[0.0, -1.0, -1.0, 0.0]), strong(&[0.5, 1.0, 1.0, -0.2])]);
        for mu in kinds {
            let model = model(mu);
            let labels = model.labels();
            let c = model.pairwise().row_sums();
            for form in [Quadratic::new(&model), Quadratic::dominated(&model)] {
                let gradient = |y: &[f32]| {
                    let (ky, mut out) = (filtered(&model, y), vec![0.0; y.len()]);
                    for (a, row) in out.chunks_exact_mut(labels).enumerate() {
                        let span = a * labels..(a + 1) * labels;
                        form.gradient(a, &ky[span.clone()], &y[span], c[a], row);
                    }
                    out
                };
                let zero = gradient(&vec![0.0; 6 * labels]);
                for case in 0..30 {
                    // Directions that sum to zero; in every third case the same at all pixels.
                    let mut d: Vec<f32> = (0..6 * labels)
                        .map(|k| {
                            let a = if case % 3 == 0 { 0 } else { k / labels };
                            ((a * 7 + k % labels + 11 * case) as f32 * 1.9).sin()
                        })
                        .collect();
                    d.chunks_exact_mut(labels).for_each(|row| {
                        let mean = row.iter().sum::<f32>() / labels as f32;
                        row.iter_mut().for_each(|v| *v -= mean);
                    });
                    let change = gradient(&d).iter().zip(&zero).map(|(g, z)| g - z).collect::<Vec<_>>();
                    let along: f32 = change.iter().zip(&d).map(|(g, d)| g * d).sum();
                    let squares = d.chunks_exact(labels).map(|row| row.iter().map(|v| v * v).sum::<f32>());
                    let told = form.lipschitz() * squares.zip(c).map(|(s, c)| s * c).sum::<f32>();
                    assert!(along <= told * 1.001 + 1e-4, "{along} against {told}");
                }
            }
        }
    }
}
