import { beforeEach, describe, expect, test } from 'bun:test'
import * as entries from '../../src/db/queries/pool/model-entries.ts'
import * as pool from '../../src/db/queries/pool/pool.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

const database = await fixture(testDatabase())
await database.sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed) values
    ('c1', 'one', ${Buffer.from('1')}, ${Buffer.from('s')}), ('c2', 'two', ${Buffer.from('2')}, ${Buffer.from('s')})`

beforeEach(async () => {
  await database.sql`truncate nodes, model_entries cascade`
})

const add = (change: Partial<pool.NewNode> = {}) =>
  pool.insertNode(database.db, {
    customerId: 'c1',
    kind: 'runtime',
    name: 'n',
    url: 'http://127.0.0.1:1',
    visibility: 'private',
    privacyClass: 'private',
    nodeClass: 'default',
    ...change,
  })

describe('§23 nodes', () => {
  test('insert, get, list by owner, update, delete', async () => {
    const [a, b] = [await add({ apiKeySealed: Buffer.from('k') }), await add({ customerId: 'c2' })]
    expect(a.nodeId).toMatch(/^node_[0-9A-Z]{26}$/)
    expect(await pool.getNode(database.db, a.nodeId)).toEqual(a)
    expect(await pool.getNode(database.db, 'node_x')).toBeNull()
    expect((await pool.listNodes(database.db)).map((row) => row.nodeId)).toEqual([a.nodeId, b.nodeId])
    expect((await pool.listNodes(database.db, 'c2')).map((row) => row.nodeId)).toEqual([b.nodeId])
    const changed = await pool.updateNode(database.db, a.nodeId, { name: 'new', visibility: 'public' })
    expect(changed).toMatchObject({ name: 'new', visibility: 'public', url: a.url })
    expect(await pool.updateNode(database.db, a.nodeId, {})).toEqual(changed)
    expect(await pool.deleteNode(database.db, a.nodeId)).toBe(true)
    expect(await pool.deleteNode(database.db, a.nodeId)).toBe(false)
  })

  test('drain keeps the time it began; resume forgets it', async () => {
    const { nodeId } = await add()
    const first = await pool.drainNode(database.db, nodeId)
    expect(first?.adminState).toBe('draining')
    expect(first?.drainStartedAt).toBeInstanceOf(Date)
    expect((await pool.drainNode(database.db, nodeId))?.drainStartedAt).toEqual(first?.drainStartedAt ?? null)
    expect(await pool.resumeNode(database.db, nodeId)).toMatchObject({ adminState: 'active', drainStartedAt: null })
  })

  test('revoked is terminal, and its key is gone', async () => {
    const { nodeId } = await add({ apiKeySealed: Buffer.from('k') })
    expect(await pool.revokeNode(database.db, nodeId)).toMatchObject({ adminState: 'revoked', apiKeySealed: null })
    for (const verb of [pool.drainNode, pool.resumeNode, pool.revokeNode]) {
      expect(await verb(database.db, nodeId)).toBeNull()
    }
    expect(await pool.updateNode(database.db, nodeId, { name: 'x' })).toBeNull()
    expect((await pool.readPool(database.db)).nodes).toEqual([])
    expect(await pool.listNodes(database.db)).toHaveLength(1)
  })
})

describe('§9 runtimes and profiles', () => {
  test('gateways that ask at once agree on every id', async () => {
    const { nodeId } = await add()
    const runtimes = await Promise.all([1, 2, 3, 4].map(() => pool.ensureRuntime(database.db, nodeId, '')))
    const [runtimeId] = runtimes
    if (runtimeId == null) throw new Error('no runtime')
    expect(new Set(runtimes).size).toBe(1)
    const lists = await Promise.all([
      pool.ensureProfiles(database.db, runtimeId, ['a', 'b', 'c']),
      pool.ensureProfiles(database.db, runtimeId, ['c', 'b', 'a']),
      pool.ensureProfiles(database.db, runtimeId, ['b']),
    ])
    const ids = new Set(lists.flat().map((row) => `${row.upstreamModelId} ${row.profileId}`))
    expect(ids.size).toBe(3)
    expect(lists.map((list) => list.length)).toEqual([3, 3, 1])
    expect(await pool.ensureProfiles(database.db, runtimeId, [])).toEqual([])
  })

  test("an agent's id of a runtime is its id here, and nobody else's", async () => {
    const [mine, other] = [await add(), await add()]
    const id = 'rt_01JABCDEFGHJKMNPQRSTVWXYZ0'
    expect(await pool.ensureRuntime(database.db, mine.nodeId, id)).toBe(id)
    expect(await pool.ensureRuntime(database.db, mine.nodeId, id)).toBe(id)
    expect(await pool.ensureRuntime(database.db, other.nodeId, id)).toBeNull()
  })

  test('of measured calls the newest stays, from whichever gateway; a call too short for a rate keeps the rate', async () => {
    const { nodeId } = await add()
    const runtimeId = await pool.ensureRuntime(database.db, nodeId, '')
    if (runtimeId === null) throw new Error('no runtime')
    const [a, b] = await pool.ensureProfiles(database.db, runtimeId, ['a', 'b'])
    if (a === undefined || b === undefined) throw new Error('no profiles')
    const at = (seconds: number) => new Date(1_800_000_000_000 + seconds * 1_000)
    const first = (ms: number, seconds: number, of = 1) => ({ ms, atMs: at(seconds).getTime(), of })
    const save = (
      profile: typeof a,
      seconds: number,
      firstToken: pool.FirstToken | null,
      tokensPerSecond: number | null,
    ) =>
      pool.saveMeasuredCalls(database.db, [
        { profileId: profile.profileId, at: at(seconds), firstToken, tokensPerSecond, answered: [] },
      ])
    await save(a, 10, first(100, 10, 3), 40)
    await save(b, 12, null, null)
    // An older one, of another gateway, and one that was not timed.
    await save(a, 5, first(999, 5), 1)
    const kept = [{ profileId: a.profileId, firstToken: first(90, 20, 5) }]
    expect(await save(a, 20, first(90, 20), null)).toEqual(kept)
    expect(await save(a, 30, null, null)).toEqual(kept)
    const rows = await pool.ensureProfiles(database.db, runtimeId, ['a', 'b'])
    const seen = Object.fromEntries(
      rows.map((row) => [
        row.upstreamModelId,
        [row.lastMeasuredAt, row.ttftMs, row.ttftAt, row.ttftCount, row.tokensPerSecond],
      ]),
    )
    expect(seen).toEqual({ a: [at(30), 90, at(20), 5, 40], b: [at(12), null, null, 0, null] })
    expect(await pool.saveMeasuredCalls(database.db, [])).toEqual([])
  })
})

describe('§23 models', () => {
  test('put replaces the whole entry', async () => {
    const made = await entries.putModelEntry(database.db, {
      modelId: 'm',
      aliases: ['x', 'y'],
      contextLength: 8_192,
      promptTokenPriceWei: 2n ** 200n,
      usdPrices: { prompt: '0.000001' },
    })
    expect(await entries.getModelEntry(database.db, 'm')).toEqual(made)
    expect(made.promptTokenPriceWei).toBe(2n ** 200n)
    const replaced = await entries.putModelEntry(database.db, { modelId: 'm', name: 'local: M' })
    expect(replaced).toMatchObject({
      name: 'local: M',
      aliases: [],
      contextLength: null,
      promptTokenPriceWei: null,
      usdPrices: null,
    })
    expect(await entries.listModelEntries(database.db)).toEqual([replaced])
    expect(await entries.deleteModelEntry(database.db, 'm')).toBe(true)
    expect(await entries.deleteModelEntry(database.db, 'm')).toBe(false)
    expect(await entries.getModelEntry(database.db, 'm')).toBeNull()
  })
})
