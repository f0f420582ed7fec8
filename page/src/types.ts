/** What the Python side tells the page: the JSON part, `about`. */

export interface Point {
  ratio: number;
  mean: number;
  spread: number;
  seeds: number;
  text: string;
}

export interface Line {
  method: string;
  /** The selector, with its settings behind it where they are not the usual ones. */
  key: string;
  name: string;
  /** What the method believes, in a few words; empty for one that is not registered. */
  description: string;
  points: Point[];
}

/** The verdict on the run, as far as the page uses it. */
export interface Verdict {
  tolerance: number;
  /** Whether any method is better than random selection beyond chance; null if that is unknown. */
  anything_beats_random: boolean | null;
  sentences: string[];
  class_harmed: boolean;
}

export interface Accuracy {
  measure: { title: string; unit: string; better: "higher" | "lower" };
  full: Point | null;
  lines: Line[];
  note: string;
  /** Every method under everything that retrainings keep equal; null where that is one thing alone. */
  by_match: { columns: string[]; rows: string[][]; note: string } | null;
  comparisons: {
    ratio: number;
    best: string;
    value: string;
    against_full: string;
    against_random: string;
    verdict: string;
  }[];
  comparison_note: string;
}

export interface Cost {
  sentence: string;
  pruning: number;
  training: [number, number][];
  equal: string;
  rows: string[][];
}

export interface Selection {
  method: string;
  selector: string;
  ratio: number;
  /** The selector, with its settings behind it where they are not the usual ones. */
  key: string;
  column: string;
}

export interface Method {
  name: string;
  score: string | null;
  selector: string;
  description: string;
  /** False where its selections cannot be computed from this page's labels: another run's, with other labels. */
  in_page?: boolean;
}

/** Another run over the same samples. */
export interface Against {
  name: string;
  labels_differ: number;
  same_test: boolean;
  /** Settings that differ: name, here, there. */
  settings: [string, string, string][];
  rows: { name: string; ratio: number; own: string; other: string; difference: string; verdict: string }[];
  note: string;
}

/** Rows of k, mean, lowest, highest. */
export type Curve = [number, number, number, number][];

export interface Training {
  histories: { part: number; total_steps: number; loss: (number | null)[]; learning_rate: (number | null)[] }[];
  steps: number[][];
  sampling: string;
  accuracy: number[];
  no_accuracy: string;
  stability: { score: string; with_all: Curve; disjoint: Curve }[];
}

export interface Agreement {
  names: string[];
  matrix: (number | null)[][];
  rows: Record<"name" | "lowest" | "median" | "highest" | "below_zero" | "seeds" | "found", string>[];
  noise: number;
  noise_share: string;
}

export interface ColumnInfo {
  kind: "float64" | "float32" | "uint32" | "uint16" | "uint8" | "int8" | "bits" | "texts";
  length: number;
  rows: number;
  scale: [number, number] | null;
}

/** What was found from features, in words; the numbers are in columns. */
export interface FeatureNotes {
  /** Why there are no features; empty where there are. */
  missing: string;
  source?: string;
  map?: string;
  /** Why neighbours were not searched; empty where they were. */
  neighbours?: string;
  duplicate_rule?: string;
  outlier_rule?: string;
  /** Number of test samples that training samples were compared with. */
  tests?: number;
}

export interface About {
  mode: "file" | "served";
  version: string;
  name: string;
  headline: string;
  verdict: Verdict;
  tally: string;
  missing: string[];
  accuracy: Accuracy | null;
  cost: Cost | null;
  facts: string[];
  settings: [string, [string, string][]][];
  recipes: [string, string, string][];
  toml: string;
  samples: number;
  classes: string[];
  partitions: number;
  seed: number;
  in_page: string[];
  methods: Method[];
  choice: { method: string; selector: string; ratio: number };
  ids: "range" | "numbers" | "texts";
  scores: string[];
  selections: Selection[];
  predictions: string;
  evidence: { dynamics?: string; features?: string };
  features: FeatureNotes;
  label_errors: { missing: string; rule?: string; order: string };
  /** Further columns that samples can be sorted by, beside scores. */
  orders: string[];
  training: Training | null;
  agreement: Agreement | null;
  class_accuracy: { method: string; key: string; ratio: number }[];
  shown: {
    kind: "pictures" | "texts" | "rows" | "none";
    note: string;
    width: number;
    pixels?: number;
    across?: number;
    type?: string;
  };
  against?: Against;
  columns: Record<string, ColumnInfo>;
  left_out: string[];
}
