import { keyTexts, nodeKey, origin } from './bases.ts'
import { type Bases, fileOf } from './case.ts'

const policyOf = (...lines: readonly string[]) => `${lines.join('\n')}\n`
const named = keyTexts.witnesses.map((key, at) => `witness w${at + 1} ${key}`)
const logLine = `log ${keyTexts.log}`
const twoOfThree = policyOf(logLine, ...named, 'group all-of-them 2 w1 w2 w3', 'quorum all-of-them')

/** By name: what a verifier was given, and what it has seen. */
export function knowns(made: Bases) {
  const { seen } = made
  const keys = { log_keys: [keyTexts.log], node_keys: [nodeKey.publicKey] }
  const root = { roots: [String(fileOf(made, 'payout').merkle_root)] }
  const saw = (...notes: readonly string[]) => ({
    ...keys,
    checkpoints: Object.fromEntries(notes.map((text) => [text.split('\n')[0], text])),
  })
  return {
    keys,
    nothing: {},
    later_key: { log_keys: [keyTexts.later] },
    stranger_key: { log_keys: [keyTexts.stranger], node_keys: [nodeKey.publicKey] },
    remembered_key: { keys: [keyTexts.log], node_keys: [nodeKey.publicKey] },
    three: { ...keys, witnesses: keyTexts.witnesses, least: 3 },
    four: { ...keys, witnesses: keyTexts.witnesses, least: 4 },
    policy: { node_keys: [nodeKey.publicKey], policy: twoOfThree },
    policy_all: { policy: twoOfThree.replace(' 2 ', ' all ') },
    policy_none: { policy: policyOf(logLine, 'quorum none') },
    policy_one: { policy: policyOf(logLine, ...named, 'quorum w2') },
    policy_nested: {
      policy: policyOf(logLine, ...named, 'group a any w1 w2', 'group b all a w3', 'quorum b'),
    },
    policy_other_log: { policy: twoOfThree.replace(logLine, `log ${keyTexts.stranger}`), keys: [keyTexts.log] },
    policy_without_log: { policy: twoOfThree.replace(logLine, ''), keys: [keyTexts.log] },
    policy_later: { policy: twoOfThree.replace(logLine, `log ${keyTexts.later}`) },
    saw_before: saw(seen.before),
    saw_now: saw(seen.now),
    saw_split: saw(seen.split),
    saw_split_now: saw(seen.splitNow),
    saw_larger: saw(seen.larger),
    saw_lost: saw(seen.lost),
    saw_lost_other: saw(seen.lostOther),
    saw_forked: { ...saw(seen.forked), log_keys: [keyTexts.log, keyTexts.later] },
    saw_forked_without_its_key: saw(seen.forked),
    saw_both: saw(seen.lostOther, seen.forked),
    saw_garbage: { ...keys, checkpoints: { [origin]: 'no checkpoint', other: 7 } },
    root,
  }
}
