import type { Options } from '../../bench/options.ts'

/** One round, as short as shows that everything is asked and measured. */
export const shortOptions: Options = {
  cases: [],
  rounds: 1,
  secs: 0.8,
  warmupSecs: 0,
  pin: null,
  limits: false,
  out: null,
  write: false,
}
