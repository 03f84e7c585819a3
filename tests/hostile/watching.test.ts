import { describe, expect, test } from 'bun:test'
import { testDatabase } from '../support/run/postgres.ts'
import { readEventsForLeaks, readForLeaks } from './world/leaks.ts'
import { type Stall, stallMsMax, watchLoop } from './world/loop-monitor.ts'
import { MarkerWatch, newMarker } from './world/markers.ts'
import { judged } from './world/path-twists.ts'
import { quoted, quoteForms } from './world/quoting.ts'
import { leakedRows } from './world/rest.ts'
import { newSecret, secretsIn } from './world/secrets.ts'
import { amplified, answerFaults, crossed } from './world/verdict.ts'

const streamOf = (...texts: readonly string[]) => new Blob([texts.join('')]).stream()

describe('what the hostile tests would see', () => {
  test('work that holds the event loop is a stall, a thread that waits while others compute is none', async () => {
    const stalls: Stall[] = []
    const monitor = watchLoop((stall) => stalls.push(stall))
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * stallMsMax)
    monitor.look()
    expect(stalls).toEqual([])
    const worker = new Worker(`data:text/javascript,const until = Date.now() + ${3 * stallMsMax}
      while (Date.now() < until);
      postMessage('done')`)
    const done = new Promise((resolve) => worker.addEventListener('message', resolve, { once: true }))
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3 * stallMsMax)
    await done
    monitor.look()
    expect(stalls).toEqual([])
    const { user, system } = process.cpuUsage()
    const used = () => (process.cpuUsage().user + process.cpuUsage().system - user - system) / 1_000
    while (used() < 2 * stallMsMax);
    monitor.look()
    expect(stalls).toHaveLength(1)
    monitor.stop()
  })

  test('a marker in any column, as text or as bytes, once for each change of its row', async () => {
    const [database, other] = [await testDatabase(), await testDatabase()]
    // Somebody else's transaction, in another database, that began before all that follows.
    const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const elsewhere = other.sql.begin(async (tx) => {
      await tx`select pg_current_xact_id()`
      begun.resolve()
      await ended.promise
    })
    try {
      const { sql } = database
      const gateway = { database }
      const seen = async () => (await leakedRows(gateway)).length
      await sql`create table kept (said text, bytes bytea)`
      await begun.promise
      expect(await seen()).toBe(0)
      await sql`insert into kept values (${`a ${newMarker()} b`}, null), (null, ${Buffer.from(newMarker())}), ('none', null)`
      expect(await seen()).toBe(2)
      expect(await seen()).toBe(0)
      await sql`update kept set said = ${newMarker()} where said = 'none'`
      expect(await seen()).toBe(1)
    } finally {
      ended.resolve()
      await elsewhere
      await other.drop()
      await database.drop()
    }
  })

  test('a marker that comes in two pieces, once', () => {
    const found: string[] = []
    const watch = new MarkerWatch((marker) => found.push(marker))
    const [one, two] = [newMarker(), newMarker()]
    watch.push(`a ${one} b ${two.slice(0, 9)}`)
    watch.push(`${two.slice(9)} c`)
    watch.push('d')
    expect(found).toEqual([one, two])
  })

  test('an answer with the marker of another, a silent end, a 500, an answer that is cut', () => {
    const [mine, other] = [newMarker(), newMarker()]
    expect(crossed(`${mine} ${other}`, [mine])).toHaveLength(1)
    expect(crossed(mine, [mine])).toEqual([])
    const stream = { status: 200, head: 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream', whole: true }
    const kindOf = (body: string, more: object = {}) => answerFaults({ ...stream, body, ...more })[0]?.kind
    expect(kindOf('data: {}\n\ndata: [DONE]\n\n')).toBeUndefined()
    expect(kindOf('data: {}\n\n')).toBe('silent end')
    expect(kindOf('data: {}\n\n', { whole: false })).toBe('broken answer')
    expect(kindOf('{"error":{"code":"internal_error"}}', { status: 500 })).toBe('status 500')
  })

  test('a key and a signature, in every spelling that is promised to be struck', () => {
    const signature = 'Sig-6PT3INrbAeLPcobROUrZR_CspBnQqf9J8taEwUXwW-Fhy6z3qFP8D5Z_i2urKtAblMztwUoS6xWcx7UH'
    const signed = { name: 'x', value: `kid=a,ts=1,nonce=b,sig=${signature}`, secret: signature }
    for (const secret of [newSecret(), newSecret()]) {
      const confided = { name: 'authorization', value: `Bearer ${secret}`, secret }
      for (const form of quoteForms) {
        for (const shift of [0, 1, 2] as const) {
          const quote = { form, shift }
          expect([form, secretsIn(`before ${quoted(quote, confided)} behind`)]).toEqual([form, [secret]])
          const said = JSON.stringify({ message: quoted(quote, signed) })
          expect([form, secretsIn(said, [signature])]).toEqual([form, [signature]])
        }
      }
      expect(secretsIn(`Bearer ${secret.slice(0, 11)}`)).toEqual([])
    }
    expect(secretsIn('Bearer xmsx, and what else there is')).toEqual([])
  })

  test('a marker and a secret in a log and in the stream of the console, and a line that is none of the log', async () => {
    const [marker, secret, faults] = [newMarker(), newSecret(), [] as string[]]
    const lines = ['{"ts":1,"level":"info"}', `{"ts":1,"k":"${secret}"}`, `{"ts":1,"m":"${marker}"}`, 'Error: x']
    await readForLeaks(streamOf(lines.join('\n'), '\n'), (fault) => faults.push(fault))
    expect(faults.sort()).toEqual(['Error: x', `marker ${marker} in the log`, `{"ts":1,"k":"${secret}"}`].sort())
    faults.length = 0
    await readEventsForLeaks(streamOf('event: a\ndata: {}\n\n', `data: ${secret}\n\n`), (fault) => faults.push(fault))
    expect(faults).toHaveLength(1)
  })

  test('a client that gets more than eight times what its node has said, and 4 MiB', () => {
    const mib = 2 ** 20
    expect(amplified(12 * mib, mib)).toEqual([])
    expect(amplified(12 * mib + 1, mib)).toHaveLength(1)
  })

  test('§1: a path that two programs may read differently', () => {
    const refused = [
      '/v1\\a',
      '//a',
      '/a/../b',
      '/a/%2e/b',
      '/a%2Fb',
      '/a%5cb',
      '/a%zz',
      '/a%00',
      '/a#b',
      '/x'.repeat(33),
    ]
    expect(refused.map(judged)).toEqual(refused.map(() => 'refused'))
    expect(['/a\0', '/a b', '/a\t'].map(judged)).toEqual(['ended', 'ended', 'ended'])
    const plain = ['/v1/models/a%2Fb', '/a/', '/a?x=//..%2f', '/a/...', '/x'.repeat(32), '/a%20b']
    expect(plain.map(judged)).toEqual(plain.map(() => 'anything'))
  })
})
