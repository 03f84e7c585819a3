import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPrivateFolder } from '../../../src/host/private-files.ts'
import { createLog } from '../../../src/log.ts'
import { createWitness, type Witness } from '../../../src/node/witness/witness.ts'
import { openWitnessMemory } from '../../../src/node/witness/witness-memory.ts'
import { checkpointText } from '../../../src/protocol/log/checkpoint.ts'
import { leafHash, nodeHash } from '../../../src/protocol/log/merkle-log.ts'
import { noteKeyText, noteText } from '../../../src/protocol/log/note.ts'
import { logSigner } from '../../../src/protocol/log/note-signing.ts'
import { witnessRequestText } from '../../../src/protocol/log/witnessing.ts'
import { signingKey, verifyEd25519 } from '../../../src/protocol/signing/ed25519.ts'
import { isMet, PolicyFault, parsePolicy, quorumText } from '../../../src/protocol/verify/policy.ts'
import { checkCheckpoint, type Trust, underPolicy } from '../../../src/protocol/verify/trust.ts'

const keyOf = (byte: number) => signingKey(new Uint8Array(32).fill(byte))
const origin = 'svc-log/a-test'
const log = logSigner(origin, keyOf(6))
const witness = (byte: number) => logSigner(`witness.example/${byte}`, keyOf(byte))
const witnessKey = (byte: number) => noteKeyText(witness(byte).cosigningKey)
const bytes = (text: string) => new TextEncoder().encode(text)
const read = (text: string) => parsePolicy(bytes(text))

const three = `log ${noteKeyText(log.key)} https://gateway.example/v1/public/log
witness X1 ${witnessKey(21)}
witness X2 ${witnessKey(22)}
witness X3 ${witnessKey(23)}
`
const twoOfThree = `${three}group X 2 X1 X2 X3\nquorum X\n`

describe('§36: a policy of C2SP tlog-policy', () => {
  test('the example of the specification: two levels of groups', () => {
    const policy = read(`
# Comments, empty lines,\ttabs and spaces are allowed.
${three}
\t group  X-witnesses 2\tX1 X2 X3
witness Y1 ${witnessKey(24)} https://witness.example/
witness Y2 ${witnessKey(25)}
group Y-witnesses any Y1 Y2
group X-and-Y all X-witnesses Y-witnesses
quorum X-and-Y`)
    expect(policy.logs.map(({ url }) => url)).toEqual(['https://gateway.example/v1/public/log'])
    expect(policy.witnesses.map(({ name, url }) => [name, url])).toEqual([
      ['X1', null],
      ['X2', null],
      ['X3', null],
      ['Y1', 'https://witness.example/'],
      ['Y2', null],
    ])
    expect(quorumText(policy.quorum)).toBe('2 of (2 of (X1, X2, X3), 1 of (Y1, Y2))')
    const met = (...signed: string[]) => isMet(policy.quorum, new Set(signed))
    expect([met('X1', 'X3', 'Y2'), met('X1', 'X2', 'X3'), met('X1', 'Y1', 'Y2'), met()]).toEqual([
      true,
      false,
      false,
      false,
    ])
  })

  test('a quorum of one witness, and of none', () => {
    expect(isMet(read(`${three}quorum X2`).quorum, new Set(['X2']))).toBe(true)
    expect(isMet(read(`${three}quorum X2`).quorum, new Set(['X1', 'X3']))).toBe(false)
    expect(read('quorum none')).toEqual({ logs: [], witnesses: [], quorum: null })
    expect(isMet(null, new Set())).toBe(true)
  })

  test('names are octets: two that Unicode would call alike are two', () => {
    const kelvin = `witness K ${witnessKey(21)}\nwitness \u212a ${witnessKey(22)}\ngroup g all K \u212a\nquorum g\n`
    expect(read(kelvin).witnesses).toHaveLength(2)
    // No UTF-8, and allowed all the same.
    const raw = new Uint8Array([...bytes('witness '), 0xff, ...bytes(` ${witnessKey(21)}\nquorum `), 0xff])
    expect(isMet(parsePolicy(raw).quorum, new Set(['\u00ff']))).toBe(true)
  })

  const cosigner = witnessKey(21)
  test.each<readonly [string, string, number]>([
    ['no quorum', three, 0],
    ['two quorums', 'quorum none\nquorum none', 2],
    ['a quorum of two names', 'quorum a b', 1],
    ['a quorum that no line before defines', `quorum X1\nwitness X1 ${cosigner}`, 1],
    ['another line', 'quorum none\nlogs', 2],
    ['a line named like a property', 'constructor x', 1],
    ['a carriage return', 'quorum none\r\n', 1],
    ['a control character', '# \u0007\nquorum none', 1],
    ['DEL', '# \u007f\nquorum none', 1],
    ['a log without a key', 'log', 1],
    ['a log with a key of a witness', `log ${cosigner}\nquorum none`, 1],
    ['a log with three words', `log ${noteKeyText(log.key)} https://a https://b\nquorum none`, 1],
    ['a log twice', `${three}log ${noteKeyText(log.key)}\nquorum none`, 5],
    [
      'one key of a log under two names',
      `${three}log ${noteKeyText(logSigner('another', keyOf(6)).key)}\nquorum none`,
      5,
    ],
    ['a witness without a key', 'witness X1', 1],
    ['a witness with a key of a log', `witness X1 ${noteKeyText(log.key)}\nquorum none`, 1],
    ['a witness with a wrong hash', `witness X1 ${cosigner.replace(/\+[0-9a-f]{8}\+/, '+00000000+')}\nquorum none`, 1],
    ['a witness named none', `witness none ${cosigner}\nquorum none`, 1],
    ['a name twice', `${three}witness X1 ${witnessKey(24)}\nquorum none`, 5],
    ['the key of a witness twice', `${three}witness X4 ${witnessKey(23)}\nquorum none`, 5],
    ['a group without members', `${three}group g all\nquorum none`, 5],
    ['a group of none', `${three}group g all none\nquorum none`, 5],
    ['a group of what comes later', `${three}group g all X4\nwitness X4 ${witnessKey(24)}\nquorum none`, 5],
    ['a group of itself', `${three}group g all g\nquorum none`, 5],
    ['a member twice in a group', `${three}group g all X1 X1\nquorum none`, 5],
    ['a member of two groups', `${three}group g all X1\ngroup h all X1 X2\nquorum none`, 6],
    ['a threshold of 0', `${three}group g 0 X1\nquorum g`, 5],
    ['a threshold above the members', `${three}group g 3 X1 X2\nquorum g`, 5],
    ['a threshold with a sign', `${three}group g +1 X1 X2\nquorum g`, 5],
    ['a threshold in hexadecimal', `${three}group g 0x1 X1 X2\nquorum g`, 5],
    ['a group with the name of a witness', `${three}group X1 all X2\nquorum none`, 5],
    ['too large', `#${'x'.repeat(256 * 1024)}\nquorum none`, 0],
  ])('%s is refused, and the line named', (_what, text, line) => {
    let fault: unknown
    try {
      read(text)
    } catch (error) {
      fault = error
    }
    expect(fault).toBeInstanceOf(PolicyFault)
    expect((fault as PolicyFault).line).toBe(line)
  })

  test('at least 32 logs, witnesses and groups are taken', () => {
    const lines = Array.from({ length: 40 }, (_, at) => [
      `log ${noteKeyText(logSigner(`log/${at}`, keyOf(100 + at)).key)}`,
      `witness w${at} ${witnessKey(100 + at)}`,
      `group g${at} all w${at}`,
    ])
    expect(read([...lines.flat(), 'quorum g39'].join('\n')).logs).toHaveLength(40)
  })
})

const bare: Trust = {
  logKeys: [],
  witnessKeys: [],
  nodeKeys: [],
  auditKeys: [],
  witnessesMin: 0,
  logNeeded: true,
  remembered: () => [],
  verify: verifyEd25519,
}
const nothing = { consistency: [], forks: [] }
const failed = (note: string, trust: Trust) =>
  checkCheckpoint(note, trust, nothing).checks.flatMap(({ name, ok }) => (ok === false ? [name] : []))

/** A log of so many entries, which begin with the same one and go on with what `view` says. */
function viewOf(view: string, size: 1 | 2) {
  const first = leafHash(bytes('the same'))
  const second = leafHash(bytes(view))
  const text = checkpointText({ origin, size, root: size === 1 ? first : nodeHash(first, second) })
  return { text, note: noteText({ text, signatures: [log.sign(text)] }), proof: size === 1 ? [] : [second] }
}

const folders: string[] = []
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true })
})

/** The witness of an agent that was given this log, with a memory of its own. */
function agentWitness(byte: number): Witness {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-policy-'))
  folders.push(folder)
  const memory = openWitnessMemory(openPrivateFolder(folder))
  memory.give([noteKeyText(log.key)])
  return createWitness({ memory, identity: keyOf(byte), log: createLog('silent', () => undefined) })
}

describe('§36: a checkpoint under a policy of two of three witnesses', () => {
  const agents = [21, 22, 23].map(agentWitness)
  const named = agents.map(({ key }, at) => `witness X${at + 1} ${key}`)
  const policy = parsePolicy(bytes(`log ${noteKeyText(log.key)}\n${named.join('\n')}\ngroup X 2 X1 X2 X3\nquorum X\n`))
  const trust = underPolicy(bare, policy)

  /** With the lines of those that sign it. */
  const shownTo = (view: ReturnType<typeof viewOf>, asked: readonly Witness[], oldSize: number) => {
    const answers = asked.map((one) =>
      one.cosign(witnessRequestText({ oldSize, proof: oldSize === 0 ? [] : view.proof, note: view.note }), {
        keys: [],
        fork: null,
      }),
    )
    const lines = answers.flatMap((one) => (one.kind === 'cosigned' ? [one.line] : []))
    return { note: view.note + lines.join(''), signed: lines.length }
  }

  test('a split view is refused: no witness signs both, and so one of the views lacks its quorum', () => {
    const begin = shownTo(viewOf('', 1), agents, 0)
    expect([begin.signed, failed(begin.note, trust)]).toEqual([3, []])
    const [left, right] = [viewOf('what one customer is shown', 2), viewOf('what the other is shown', 2)]
    const one = shownTo(left, agents.slice(0, 2), 1)
    expect([one.signed, failed(one.note, trust)]).toEqual([2, []])
    // The operator has the log's key and every agent's ear; two of them have signed the other view, and refuse.
    const other = shownTo(right, agents, 1)
    expect([other.signed, failed(other.note, trust)]).toEqual([1, ['witnesses']])
    expect(failed(other.note, { ...bare, logKeys: [log.key] })).toEqual([])
  })

  test('one witness that signs twice is one, and a stranger is none', () => {
    const { text } = viewOf('', 1)
    const [known, stranger] = [witness(21), witness(99)]
    const own = underPolicy(bare, read(twoOfThree))
    const twice = noteText({ text, signatures: [log.sign(text), known.cosign(text, 1), known.cosign(text, 2)] })
    expect(failed(twice, own)).toEqual(['witnesses'])
    const strange = noteText({ text, signatures: [log.sign(text), known.cosign(text, 1), stranger.cosign(text, 1)] })
    expect(failed(strange, own)).toEqual(['witnesses'])
    const two = noteText({ text, signatures: [log.sign(text), known.cosign(text, 1), witness(23).cosign(text, 1)] })
    expect(failed(two, own)).toEqual([])
  })

  test('a log that the policy does not name is refused, also by a key that was given or remembered', () => {
    const other = logSigner('svc-log/another', keyOf(7))
    const text = checkpointText({ origin: 'svc-log/another', size: 1, root: leafHash(bytes('x')) })
    const note = noteText({
      text,
      signatures: [other.sign(text), witness(21).cosign(text, 1), witness(22).cosign(text, 1)],
    })
    const remembering = { ...bare, logKeys: [other.key] }
    expect(failed(note, underPolicy(remembering, read(twoOfThree)))).toEqual(['checkpoint'])
    // A policy without logs leaves them to the one who verifies.
    const without = twoOfThree.slice(twoOfThree.indexOf('\n') + 1)
    expect(failed(note, underPolicy(remembering, read(without)))).toEqual([])
  })

  test('a later name of the log counts when the policy has it', () => {
    const later = logSigner(`${origin}/2`, keyOf(6))
    const text = checkpointText({ origin: `${origin}/2`, size: 1, root: leafHash(bytes('x')) })
    const note = noteText({
      text,
      signatures: [later.sign(text), witness(21).cosign(text, 1), witness(22).cosign(text, 1)],
    })
    expect(failed(note, underPolicy(bare, read(twoOfThree)))).toEqual(['checkpoint'])
    const renamed = twoOfThree.replace(noteKeyText(log.key), noteKeyText(later.key))
    expect(failed(note, underPolicy(bare, read(renamed)))).toEqual([])
  })
})
