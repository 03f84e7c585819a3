import { expect, test } from 'bun:test'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { vectorsText } from '../scripts/vectors.ts'
import { parseNoteKey } from '../src/protocol/log/note.ts'
import { verifyEd25519 } from '../src/protocol/signing/ed25519.ts'
import { verifyBundle } from '../src/protocol/verify/bundle.ts'

const root = join(import.meta.dir, '..')
const file = join(root, 'docs/vectors.json')
const program = join(root, 'docs/verify/verify.py')
const python = (...args: string[]) => Bun.spawnSync(['python3', ...args], { stdout: 'pipe', stderr: 'pipe' })
/** PyPI is not everywhere; where the package is, its verifier must agree with ours. */
const hasPython = Bun.which('python3') !== null && python('-c', 'import cryptography').exitCode === 0

interface Vectors {
  readonly receipt: { readonly log_key: string; readonly witness_key: string; readonly file: Record<string, unknown> }
  readonly receipt_v2: { readonly file: Record<string, unknown> }
  readonly receipt_v3: { readonly file: Record<string, unknown> }
  readonly receipt_before_cutoff: { readonly file: Record<string, unknown> }
  readonly payouts: { readonly root: string; readonly payouts: readonly object[] }
}

test('§31: docs/vectors.json is what the code computes', async () => {
  expect(await vectorsText()).toBe(readFileSync(file, 'utf8'))
})

const keyOf = (text: string) => [parseNoteKey(text)].filter((key) => key !== null)
const trustIn = ({ receipt }: Vectors) => ({
  logKeys: keyOf(receipt.log_key),
  witnessKeys: keyOf(receipt.witness_key),
  nodeKeys: [],
  auditKeys: [],
  witnessesMin: 1,
  logNeeded: true,
  remembered: () => [],
  verify: verifyEd25519,
})

/** What somebody could make of a receipt that lacks its node's signature. */
function withoutCutoff(file: Record<string, unknown>): readonly Record<string, unknown>[] {
  const log = file.log as { cutoff: Record<string, unknown> }
  const changed = (change: object) => ({ ...file, log: { ...log, cutoff: { ...log.cutoff, ...change } } })
  return [
    { ...file, log: { ...log, cutoff: null } },
    { ...file, signature_ed25519: 'A'.repeat(86) },
    changed({ size: 0 }),
    changed({ size: 2 }),
    changed({ unsigned: 0 }),
    changed({ unsigned: 2 }),
    changed({ root: 'ab'.repeat(32) }),
    changed({ unsigned_hash: `0x${'ab'.repeat(32)}` }),
    changed({ proof: [] }),
  ]
}

test('§31: our own verifier takes the published receipt and payouts, and not the receipt with another number', () => {
  const vectors = JSON.parse(readFileSync(file, 'utf8')) as Vectors
  const { receipt, receipt_v2: bound, payouts } = vectors
  const trust = trustIn(vectors)
  expect(verifyBundle(receipt.file, trust)?.map(({ valid }) => valid)).toEqual([true])
  expect(verifyBundle(bound.file, trust)?.map(({ valid }) => valid)).toEqual([true])
  const opened = bound.file.opened as Record<string, unknown>
  const lies: readonly object[] = [
    { ...opened, request: {} },
    { ...opened, response: { choices: [] } },
    { ...opened, upstream_model: 'another' },
    { ...opened, salt: 'A'.repeat(43) },
    { ...opened, salt: 'short' },
  ]
  for (const one of lies) expect(verifyBundle({ ...bound.file, opened: one }, trust)?.[0]?.valid).toBe(false)
  const changed = { ...receipt.file, receipt: { ...(receipt.file.receipt as object), completion_tokens: 8 } }
  expect(verifyBundle(changed, trust)?.map(({ valid }) => valid)).toEqual([false])
  const given = payouts.payouts.map((one) => ({ ...one, object: 'svc.payout_proof', merkle_root: payouts.root }))
  for (const one of given) expect(verifyBundle(one, trust, [payouts.root])?.[0]?.valid).toBe(true)
})

test('§36: our own verifier takes the published promises, and none of another receipt', () => {
  const vectors = JSON.parse(readFileSync(file, 'utf8')) as Vectors & { readonly promises: { receipt: object }[] }
  const trust = trustIn(vectors)
  expect(vectors.promises).toHaveLength(2)
  for (const { receipt } of vectors.promises) {
    expect(verifyBundle({ svc: { receipt } }, trust)?.map(({ valid }) => valid)).toEqual([true])
    const other = { ...receipt, hash: `0x${'ab'.repeat(32)}` }
    expect(verifyBundle({ svc: { receipt: other } }, trust)?.map(({ valid }) => valid)).toEqual([false])
  }
})

test('§31: a receipt without its node’s signature is valid before the log’s cutoff alone', () => {
  const vectors = JSON.parse(readFileSync(file, 'utf8')) as Vectors
  const trust = trustIn(vectors)
  const { file: good } = vectors.receipt_before_cutoff
  const [verdict] = verifyBundle(good, trust) ?? []
  expect(verdict?.valid).toBe(true)
  expect(verdict?.checks.find(({ name }) => name === 'signature')).toMatchObject({ ok: null })
  const failed = (one: object) =>
    verifyBundle(one, trust)?.flatMap(({ checks }) => checks.flatMap(({ name, ok }) => (ok === false ? [name] : [])))
  for (const one of withoutCutoff(good)) expect([one, failed(one)]).toEqual([one, ['signature']])
})

test.skipIf(!hasPython)(
  '§31: the Python verifier runs the same vectors (needs python3 with cryptography)',
  async () => {
    // Somebody is to read all of it before trusting it.
    expect(readFileSync(program, 'utf8').split('\n').length).toBeLessThanOrEqual(880)
    const ran = python(program, 'vectors', file)
    expect([ran.exitCode, ran.stderr.toString()]).toEqual([0, ''])
    const {
      receipt,
      receipt_v2: bound,
      receipt_before_cutoff: unsigned,
    } = JSON.parse(readFileSync(file, 'utf8')) as Vectors
    const changed = { ...receipt.file, receipt: { ...(receipt.file.receipt as object), completion_tokens: 8 } }
    const folder = process.env.TMPDIR ?? '/tmp'
    const bad = join(folder, `penstock-${crypto.randomUUID()}.json`)
    // Each time as one who has seen nothing yet: the examples are of several logs with one name.
    const judged = () => {
      const memory = join(folder, `penstock-${crypto.randomUUID()}-logs.json`)
      const { exitCode } = python(program, 'receipt', bad, '--log-key', receipt.log_key, '--memory', memory)
      rmSync(memory, { force: true })
      return exitCode
    }
    await Bun.write(bad, JSON.stringify(changed))
    expect(judged()).toBe(1)
    await Bun.write(bad, JSON.stringify(receipt.file))
    expect(judged()).toBe(0)
    const shown = { ...(bound.file.opened as object), request: { model: 'another' } }
    await Bun.write(bad, JSON.stringify({ ...bound.file, opened: shown }))
    expect(judged()).toBe(1)
    for (const one of withoutCutoff(unsigned.file)) {
      await Bun.write(bad, JSON.stringify(one))
      expect([one, judged()]).toEqual([one, 1])
    }
    await Bun.file(bad).delete()
  },
)
