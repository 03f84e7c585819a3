import { brand } from '../../../brand.ts'
import { canonicalJson } from '../../../protocol/json/canonical-json.ts'
import { type NoteKey, noteKeyText, parseNoteKey } from '../../../protocol/log/note.ts'
import { receiptVersions, textHash } from '../../../protocol/receipts/receipt.ts'
import { verifyEd25519, verifyKey } from '../../../protocol/signing/ed25519.ts'
import { verifyBundle } from '../../../protocol/verify/bundle.ts'
import { type Trust, underPolicy, type Verdict } from '../../../protocol/verify/trust.ts'
import { action, type OptionValues, type Verb } from '../../frame/action.ts'
import { CliFailure, exitCodes, UsageFault } from '../../frame/failure.ts'
import { givenText, givenTextForm } from '../../frame/given-text.ts'
import { fields } from '../../frame/table.ts'
import { type KnownLogs, openKnownLogs } from './known-logs.ts'
import { readPolicy } from './policy-file.ts'
import { readFile, verdictLines } from './verdict-text.ts'
import { verifyAttestation } from './verify-attestation.ts'

const options = {
  'log-key': {
    kind: 'texts',
    value: 'NAME+HASH+BASE64',
    about: 'A key of the log that you know from elsewhere. This computer remembers it',
  },
  key: { kind: 'texts', value: 'BASE64URL', about: 'An issuer’s Ed25519 key that you know from elsewhere' },
  witness: { kind: 'texts', value: 'NAME+HASH+BASE64', about: 'A key of a witness that you know' },
  witnesses: { kind: 'number', value: 'N', about: 'How many known witnesses must have signed', min: 0, max: 100 },
  policy: {
    kind: 'text',
    value: 'FILE',
    about: 'A trust policy (C2SP tlog-policy): the logs, the witnesses and the quorum, in place of the options above',
  },
  'without-log': { kind: 'flag', about: 'Accept a signature alone, without a proof that the log contains the receipt' },
  root: { kind: 'texts', value: '0x…', about: 'A root that the contract on the blockchain shows' },
  'audit-key': {
    kind: 'texts',
    value: 'KEY',
    about: `For an audit: the key or keys of SVC_AUDIT_KEY; ${givenTextForm}`,
  },
  hash: { kind: 'text', value: '0x…', about: 'For a bare receipt: the hash that you expect' },
  signature: { kind: 'text', value: 'BASE64URL', about: 'For a bare receipt: its signature' },
} as const
type Given = OptionValues<typeof options>

function noteKeys(texts: readonly string[], option: string): readonly NoteKey[] {
  return texts.map((text) => {
    const key = parseNoteKey(text)
    if (key === null) throw new UsageFault(`--${option} is not a key of a signed note`)
    return key
  })
}

function trustOf(given: Given, logs: KnownLogs, auditKeys: readonly string[]): Trust {
  for (const key of given.key)
    if (verifyKey(key) === null) throw new UsageFault('--key is not an Ed25519 key in base64url')
  return {
    logKeys: noteKeys([...given['log-key'], ...logs.keys()], 'log-key'),
    witnessKeys: noteKeys(given.witness, 'witness'),
    nodeKeys: given.key,
    auditKeys,
    witnessesMin: given.witnesses ?? 0,
    logNeeded: !given['without-log'],
    remembered: logs.remembered,
    verify: verifyEd25519,
  }
}

/** Under a policy its keys alone count, and options that would widen it are refused. */
async function policed(trust: Trust, given: Given): Promise<Trust> {
  if (given.policy === undefined) return trust
  const policy = await readPolicy(given.policy)
  if (given.witness.length > 0 || given.witnesses !== undefined)
    throw new UsageFault('--policy says which witnesses count. Leave out --witness and --witnesses')
  if (policy.logs.length > 0 && given['log-key'].length > 0)
    throw new UsageFault('The policy says which logs count. Leave out --log-key')
  if (given['without-log']) throw new UsageFault('A policy is about a checkpoint of the log. Leave out --without-log')
  return underPolicy(trust, policy)
}

/** As the setting has them: newest first, with commas between. */
const keysIn = (text: string) =>
  text
    .split(',')
    .map((key) => key.trim())
    .filter((key) => key !== '')

/** A receipt as it was hashed, together with its claimed hash and signature. */
function bareReceipt(value: unknown, { hash, signature }: Given): unknown {
  const version = (value as { v?: unknown } | null)?.v
  if (!receiptVersions.has(version)) return value
  const receipt_hash = hash?.toLowerCase() ?? textHash(canonicalJson(value))
  return { object: `${brand}.receipt`, receipt_hash, receipt: value, signature_ed25519: signature }
}

const verifying = (kinds: readonly Verdict['kind'][], about: string, what: string) =>
  action({
    about,
    operands: [{ name: 'FILE', about: `${what}. A dash (-) reads standard input.` }],
    options,
    run: async ({ operands, options: given, json }, session) => {
      const logs = openKnownLogs(session.env)
      const auditKeys = await Promise.all(given['audit-key'].map((key) => givenText(session, 'audit-key', key)))
      const trust = await policed(trustOf(given, logs, auditKeys.flatMap(keysIn)), given)
      const value = bareReceipt(await readFile(session, operands[0] ?? ''), given)
      const verdicts = verifyBundle(
        value,
        trust,
        given.root.map((root) => root.toLowerCase()),
      )
      if (verdicts === null || !verdicts.every(({ kind }) => kinds.includes(kind))) {
        throw new CliFailure(`This is not a ${kinds.join(' or ')} that can be verified.`, [], exitCodes.unverifiable)
      }
      const valid = verdicts.length > 0 && verdicts.every((one) => one.valid)
      for (const { checkpoint } of verdicts) {
        const own = trust.logKeys.filter(({ name }) => name === checkpoint?.origin)
        if (checkpoint !== null) logs.keep(checkpoint, own.map(noteKeyText))
      }
      const shown = verdicts.map(({ checkpoint, ...rest }) => ({ ...rest, log_size: checkpoint?.size ?? null }))
      session.show(json, { valid, verdicts: shown }, () => fields(session.terminal, verdicts.flatMap(verdictLines)))
      return valid ? undefined : exitCodes.failed
    },
  })

export const verify: Verb = {
  name: 'verify',
  about: 'Check proofs offline. The command trusts nothing in a file by itself',
  actions: {
    receipt: verifying(
      ['receipt'],
      'Check a receipt: its hash, its signature, its place in the public log, and that the log only grew',
      'The output of `receipts export`, the answer of /v1/billing/receipts/HASH, or a bare receipt',
    ),
    payout: verifying(
      ['payout'],
      'Check that payouts are in the root of their batch',
      'The output of `payouts proofs --json`, or one proof of it',
    ),
    checkpoint: verifying(
      ['checkpoint'],
      'Check a checkpoint of a public log: who signed it, and that the log only grew',
      'A checkpoint as the log shows it',
    ),
    audit: verifying(
      ['audit'],
      'Check an export of the audit: every event of every chain, and that the public log holds the ends',
      'The output of `audit export`',
    ),
    promise: verifying(
      ['promise', 'omission'],
      'Check a promise of the log, that the log kept it, or the evidence that it did not',
      'An answer with its `svc`, the last chunk of a stream, or the output of `receipts promise`',
    ),
    envelope: verifying(
      ['envelope'],
      'Check the envelopes of a private job: their form, who has signed the node’s key, and to what they are bound',
      'The output of `jobs export`',
    ),
    attestation: verifyAttestation,
    file: verifying(
      ['receipt', 'payout', 'checkpoint', 'audit', 'envelope', 'promise', 'omission'],
      'Check a file of any kind, or a bundle of several',
      'Any file that the other forms take, or {"object":"svc.bundle","files":[…]}',
    ),
  },
}
