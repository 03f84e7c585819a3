import { afterAll, beforeEach, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { mutationsText } from '../../../scripts/verdicts/write.ts'
import { verify } from '../../../src/cli/commands/proofs/verify.ts'
import { entryOf } from '../../../src/cli/frame/action.ts'
import { runProgram } from '../../../src/cli/frame/program.ts'
import { createSession } from '../../../src/cli/frame/session.ts'
import { type Known, type Mutation, mutations, mutationsFile, rememberedIn } from '../../support/verdicts/mutations.ts'

const program = join(import.meta.dir, '../../../docs/verify/verify.py')
const python = (...args: string[]) => Bun.spawnSync(['python3', ...args], { stdout: 'pipe', stderr: 'pipe' })
const hasPython = Bun.which('python3') !== null && python('-c', 'import cryptography').exitCode === 0

const home = mkdtempSync(join(tmpdir(), 'penstock-mutations-'))
const memory = join(home, '.config/penstock/public-logs.json')
const file = join(home, 'proof.json')
const policy = join(home, 'policy')
beforeEach(() => {
  rmSync(join(home, '.config'), { recursive: true, force: true })
  mkdirSync(join(home, '.config/penstock'), { recursive: true })
})
afterAll(() => rmSync(home, { recursive: true }))

const each = (option: string, values: readonly string[] = []) => values.flatMap((value) => [option, value])
const optionsOf = ({ log_keys, node_keys, witnesses, least, roots, policy: text }: Known) => [
  ...each('--log-key', log_keys),
  ...each('--key', node_keys),
  ...each('--witness', witnesses),
  ...each('--root', roots),
  ...(least === undefined ? [] : ['--witnesses', String(least)]),
  ...(text === undefined ? [] : ['--policy', policy]),
]

function prepare({ text, known }: Mutation): void {
  writeFileSync(file, text)
  writeFileSync(policy, known.policy ?? '')
  const remembered = rememberedIn(known)
  if (remembered === null) rmSync(memory, { force: true })
  else writeFileSync(memory, remembered)
}

/** The exit code of the command, run as `./penstock verify file` is. */
async function commandOf(one: Mutation): Promise<number> {
  prepare(one)
  const terminal = {
    interactive: false,
    outIsTerminal: false,
    out: () => undefined,
    err: () => undefined,
    style: (_style: string, text: string) => text,
    confirm: async () => false,
    readAll: async () => '',
  }
  const session = createSession(terminal, { env: { HOME: home }, folder: home } as never)
  return runProgram(['verify', 'file', file, ...optionsOf(one.known)], {
    verbs: [entryOf(verify)],
    version: '',
    session,
  })
}

test('§36: the table of mutations is what the code makes of its bases, and has at least 200 rows', async () => {
  expect(await mutationsText()).toBe(readFileSync(mutationsFile, 'utf8'))
  const all = mutations()
  expect(all.length).toBeGreaterThanOrEqual(200)
  expect(new Set(all.map(({ name }) => name)).size).toBe(all.length)
  expect(all.filter(({ valid }) => valid).length).toBeGreaterThan(40)
})

test('§36: the command gives every row its verdict', async () => {
  const verdicts: (readonly [string, boolean])[] = []
  for (const one of mutations()) {
    const code = await commandOf(one)
    // 1: it does not hold; 4: it is nothing that can be verified. Neither is a fault of the program or of its options.
    expect([one.name, [0, 1, 4].includes(code) ? 'judged' : code]).toEqual([one.name, 'judged'])
    verdicts.push([one.name, code === 0])
  }
  expect(verdicts).toEqual(mutations().map(({ name, valid }) => [name, valid] as const))
})

test.skipIf(!hasPython)('§36: verify.py gives every row its verdict (needs python3 with cryptography)', () => {
  const ran = python(program, 'mutations', mutationsFile)
  expect([ran.exitCode, ran.stderr.toString()]).toEqual([0, ''])
})

test.skipIf(!hasPython)('§36: verify.py remembers what the command has seen, and the other way round', async () => {
  const row = (name: string) => {
    const found = mutations().find((one) => one.name === name)
    if (found === undefined) throw new Error(name)
    return found
  }
  const [grown, split] = [row('note: as it is'), row('grown: from another log of the same size')]
  const byPython = (one: Mutation) => {
    writeFileSync(file, one.text)
    writeFileSync(policy, one.known.policy ?? '')
    return python(program, 'file', file, '--memory', memory, ...optionsOf(one.known)).exitCode
  }
  prepare({ ...grown, known: {} })
  expect(byPython(grown)).toBe(0)
  const kept = JSON.parse(readFileSync(memory, 'utf8')) as { keys: string[]; checkpoints: Record<string, string> }
  expect(kept.keys).toEqual([...(grown.known.log_keys ?? [])])
  const [origin = ''] = Object.keys(kept.checkpoints)
  // Another log of the same size, by the key of the log itself: whoever has seen the first one refuses it.
  const splitNow = split.known.checkpoints?.[origin]
  writeFileSync(memory, JSON.stringify({ ...kept, checkpoints: { [origin]: splitNow } }))
  expect(byPython(grown)).toBe(1)
  expect(JSON.parse(readFileSync(memory, 'utf8'))).toEqual({ ...kept, checkpoints: { [origin]: splitNow } })
  // What verify.py has kept, the command reads, without the key being given again.
  const remembered = { ...grown, known: { keys: kept.keys, checkpoints: kept.checkpoints } }
  expect(await commandOf(remembered)).toBe(0)
  expect(await commandOf({ ...remembered, known: { keys: kept.keys, checkpoints: { [origin]: splitNow } } })).toBe(1)
  // A damaged memory is a fault and not an empty one.
  writeFileSync(memory, '[')
  expect(byPython(grown)).toBe(2)
})

test.skipIf(!hasPython)('§36: verify.py refuses a policy with what would widen it, and a policy that is none', () => {
  const [one] = mutations().filter(({ known }) => known.policy !== undefined)
  if (one === undefined) throw new Error('there is no policy')
  prepare(one)
  const run = (...more: string[]) => python(program, 'file', file, '--memory', memory, '--policy', policy, ...more)
  const [key = ''] = mutations().flatMap(({ known }) => known.witnesses ?? [])
  expect(run('--witness', key).exitCode).toBe(2)
  expect(run('--witnesses', '1').exitCode).toBe(2)
  expect(run('--without-log').exitCode).toBe(2)
  writeFileSync(policy, 'quorum none\nquorum none\n')
  expect(run().stderr.toString()).toContain('line 2 of the policy')
})
