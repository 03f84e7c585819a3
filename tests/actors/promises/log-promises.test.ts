import { describe, expect, test } from 'bun:test'
import { type Gathering, LogPromises } from '../../../src/actors/promises/log-promises.ts'
import { promisedEnd } from '../../../src/actors/promises/promised-end.ts'
import { batchMax, type LogPromise, readPromise } from '../../../src/protocol/log/promise.ts'
import { signingKey, verifyKey } from '../../../src/protocol/signing/ed25519.ts'

const key = signingKey(new Uint8Array(32).fill(3))
const known = verifyKey(key.publicKey)
const nowMs = 1_795_190_400_123
const hashAt = (at: number) => `0x${at.toString(16).padStart(64, '0')}`

function rig(log: () => string | null = () => 'svc-log/test') {
  let signatures = 0
  const counted = {
    sign: (message: string | Uint8Array) => {
      signatures++
      return key.sign(message)
    },
  }
  const promises = new LogPromises({ key: counted, log, now: () => nowMs })
  const answers: LogPromise[] = []
  const ask = (at: number, by: Gathering = 'commit'): void => {
    const slot = promises.slot(hashAt(at))
    if (slot === null) throw new Error('no promise')
    const text = `{"svc":{"receipt":${JSON.stringify(slot)}}}`
    promises.fill(text, [slot], by, (filled) => {
      answers.push((JSON.parse(filled) as { svc: { receipt: LogPromise } }).svc.receipt)
    })
  }
  return { promises, answers, ask, signatures: () => signatures }
}

const filledBy = (promises: LogPromises, text: string, slots: readonly LogPromise[]) =>
  new Promise<string>((resolve) => promises.fill(text, slots, 'commit', resolve))

/** What was asked for in this turn is answered: its signature, and what follows from it. */
async function endOfTurn(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve))
}

/** Each promise holds by itself, whatever it was signed with. */
function expectSound(answers: readonly LogPromise[]): void {
  for (const answer of answers) {
    const read = readPromise(answer)
    expect(read?.promised).toEqual({ log: 'svc-log/test', ms: nowMs, hash: answer.hash })
    expect(known?.verify(read?.message ?? '', read?.signature ?? '')).toBe(true)
  }
}

describe('§36: the promises of one process', () => {
  test('those of one callback share a signature, one that is alone has its own, and none waits for a later turn', async () => {
    const { answers, ask, signatures } = rig()
    for (let at = 0; at < 60; at++) ask(at)
    await endOfTurn()
    expect([answers.length, signatures()]).toEqual([60, 1])
    expect(answers.map(({ batch }) => batch?.size)).toEqual(Array(60).fill(60))
    expect(new Set(answers.map(({ hash }) => hash)).size).toBe(60)
    for (let turn = 0; turn < 300; turn++) {
      ask(1_000 + turn)
      await endOfTurn()
      expect(answers).toHaveLength(61 + turn)
    }
    expect(signatures()).toBe(301)
    expect(answers.slice(60).every(({ batch }) => batch === undefined)).toBe(true)
    expectSound(answers)
  })

  test('none waits for what other connections do in the same turn', async () => {
    const { answers, ask } = rig()
    const toldThen = new Promise<number>((resolve) => setImmediate(() => resolve(answers.length)))
    ask(1)
    ask(2)
    expect(await toldThen).toBe(2)
  })

  test('those of free answers share the signature of their turn, whatever callbacks they came in', async () => {
    const { answers, ask, signatures } = rig()
    ask(1, 'turn')
    await new Promise<void>((resolve) => process.nextTick(resolve))
    ask(2, 'turn')
    ask(3)
    await endOfTurn()
    expect([answers.length, signatures()]).toEqual([3, 2])
    expect(answers.map(({ batch }) => batch?.size)).toEqual([undefined, 2, 2])
    expectSound(answers)
  })

  test('every size of a batch has paths that lead to its root', async () => {
    const { answers, ask } = rig()
    for (let size = 1; size <= 40; size++) {
      for (let at = 0; at < size; at++) ask(size * 100 + at)
      await endOfTurn()
    }
    expect(answers).toHaveLength((40 * 41) / 2)
    expectSound(answers)
  })

  test('a batch of 256 waits for nothing more', async () => {
    const { answers, ask, signatures } = rig()
    for (let at = 0; at < batchMax; at++) ask(at)
    await Promise.resolve()
    expect(signatures()).toBe(1)
    ask(batchMax)
    await endOfTurn()
    expect([answers.length, signatures()]).toEqual([1 + batchMax, 2])
    expect(answers[0]?.batch?.proof).toHaveLength(8)
    expect(answers.at(-1)?.batch).toBeUndefined()
    expectSound(answers)
  })

  test('a log that stands promises nothing, and one that was renamed meanwhile its name of now', async () => {
    let log: string | null = null
    const { promises, answers, ask } = rig(() => log)
    expect(promises.slot(hashAt(1))).toBeNull()
    log = 'svc-log/test'
    ask(1)
    log = 'svc-log/test/2'
    ask(2)
    await endOfTurn()
    expect(answers.map((one) => one.log)).toEqual(['svc-log/test/2', 'svc-log/test/2'])
    ask(3)
    log = null
    await endOfTurn()
    expect(answers.at(-1)?.log).toBe('svc-log/test/2')
  })
})

describe('§36: the place of a promise in an answer', () => {
  test('is taken by nothing that a node has said, and the rest of the text stays as it is', async () => {
    const { promises } = rig()
    const slot = promises.slot(hashAt(1)) as LogPromise
    const written = JSON.stringify(slot)
    const said = JSON.stringify({ ...slot, signature_ed25519: '0'.repeat(32) })
    const text = `{"a":"$& $1 ${'$$'}","b":${said},"svc":{"receipt":${written}}}`
    const filled = await filledBy(promises, text, [slot])
    expect(filled.startsWith(`{"a":"$& $1 ${'$$'}","b":${said},"svc":{"receipt":{"hash"`)).toBe(true)
    expect(filled).not.toContain(written)
    expect(await filledBy(promises, '{}', [slot])).toBe('{}')
    const twice = await filledBy(promises, `[${written}]`, [slot, slot])
    expect(readPromise(JSON.parse(twice)[0])?.promised.hash).toBe(hashAt(1))
  })

  test('is that of its own receipt where another slot stands behind it', async () => {
    const { promises, signatures } = rig()
    const [own, other] = [promises.slot(hashAt(1)) as LogPromise, promises.slot(hashAt(2)) as LogPromise]
    const filled = JSON.parse(await filledBy(promises, JSON.stringify([own, other]), [own])) as LogPromise[]
    expectSound(filled.slice(0, 1))
    expect(filled).toEqual([expect.objectContaining({ hash: hashAt(1) }), other])
    expect(signatures()).toBe(1)
  })

  test('is that of its own receipt, in whatever order an answer lists many, and with more than one signature has room for', async () => {
    const { promises, ask, signatures } = rig()
    ask(1_000)
    const slots = Array.from({ length: batchMax + 2 }, (_, at) => promises.slot(hashAt(at)) as LogPromise)
    const shown = slots.toReversed()
    const filled = JSON.parse(await filledBy(promises, JSON.stringify({ receipts: shown, end: 'é' }), slots)) as {
      readonly receipts: readonly LogPromise[]
      readonly end: string
    }
    expect(filled.end).toBe('é')
    expect(filled.receipts.map(({ hash }) => hash)).toEqual(shown.map(({ hash }) => hash))
    expectSound(filled.receipts)
    expect(signatures()).toBe(2)
  })

  test('is filled when what is billed is durable, and never where that fails', async () => {
    const { promises, signatures } = rig()
    const slot = promises.slot(hashAt(1)) as LogPromise
    const { promise, resolve } = Promise.withResolvers<void>()
    const end = promisedEnd({ port: { promises }, durable: promise }, JSON.stringify(slot), { receipt: slot })
    await Promise.resolve()
    expect(signatures()).toBe(0)
    resolve()
    expect(readPromise(JSON.parse((await end) ?? ''))?.promised.hash).toBe(hashAt(1))
    const lost = promisedEnd({ port: { promises }, durable: Promise.reject(new Error('no disk')) }, '', {
      receipt: slot,
    })
    await expect(lost as Promise<string>).rejects.toThrow('no disk')
    expect(signatures()).toBe(1)
    expect(promisedEnd({ port: { promises }, durable: null }, '{}', {})).toBeNull()
  })
})
