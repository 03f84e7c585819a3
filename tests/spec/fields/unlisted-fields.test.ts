import { beforeEach, describe, expect, test } from 'bun:test'
import { doors } from '../../../src/protocol/dialects/field.ts'
import { member, newNames, places, requests, TwoOwners, told } from '../../support/pools/two-owners.ts'
import { fixture } from '../../support/run/fixture.ts'

const owners = await fixture(TwoOwners.start())

beforeEach(() => {
  owners.sent = []
})

describe.each(places)('§35: a field that the table lacks: %s', (place) => {
  test.each(newNames)('an own node gets it by its name: %j', async (name) => {
    const value = { a: [1, 'ü', null], constructor: { b: false } }
    const response = await owners.ask(place, 'own', member(name, value))
    expect([response.status, owners.sent.length]).toEqual([200, 1])
    expect(Object.getOwnPropertyDescriptor(owners.sent[0]?.body, name)?.value).toEqual(value)
    expect(Object.getPrototypeOf(owners.sent[0]?.body ?? {})).toBe(Object.prototype)
  })

  test.each(newNames)('others’ nodes do not, and the client is told which: %j', async (name) => {
    const answered = await told(await owners.ask(place, 'others', member(name, 1)))
    expect(answered).toMatchObject({ status: 400, code: 'invalid_request', param: name })
    expect(answered.words).toContain('is a field that this gateway does not know')
    expect(owners.sent).toEqual([])
  })

  test('others’ nodes get a request without one', async () => {
    expect((await owners.ask(place, 'others', member('svc', {}))).status).toBe(200)
    expect(owners.sent.map(({ by }) => by)).toEqual(['others'])
  })

  test('null asks for nothing, whoever has the node', async () => {
    expect((await owners.ask(place, 'others', member('brand_new_sampler', null))).status).toBe(200)
    expect(owners.sent[0]?.body.brand_new_sampler ?? null).toBeNull()
  })

  test('a thousand of them', async () => {
    const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`new_${at}`, at]))
    const more = JSON.stringify(many).slice(1, -1)
    expect((await owners.ask(place, 'own', more)).status).toBe(200)
    expect(owners.sent[0]?.body).toMatchObject(many)
    expect(await told(await owners.ask(place, 'others', more))).toMatchObject({ status: 400, param: 'new_0' })
    expect(owners.sent).toHaveLength(1)
  })

  test('a name too long to repeat is cut', async () => {
    const name = 'n'.repeat(100_000)
    expect((await owners.ask(place, 'own', member(name, 1))).status).toBe(200)
    expect(owners.sent[0]?.body[name]).toBe(1)
    const { param, words } = await told(await owners.ask(place, 'others', member(name, 1)))
    expect(param).toBe(`${'n'.repeat(64)}…`)
    expect(words.length).toBeLessThan(2_000)
  })

  test('one that comes twice is refused, as any key is', async () => {
    expect(await told(await owners.ask(place, 'own', '"twice":1,"twice":2'))).toMatchObject({
      status: 400,
      code: 'invalid_json',
    })
    expect(owners.sent).toEqual([])
  })

  test('`__proto__` gives a request no member', async () => {
    const hidden = { svc: { mixture: {} }, stream: true, node_id: 'node_1', max_tokens: 'many', prompt_cache_key: 1 }
    const response = await owners.ask(place, 'own', member('__proto__', hidden))
    expect([response.status, response.headers.get('content-type')?.includes('event-stream')]).toEqual([200, false])
    expect(owners.sent[0]?.body.max_tokens).not.toBe('many')
    expect(owners.sent[0]?.body.stream ?? false).toBe(false)
  })

  test('what newNames a node is refused before', async () => {
    expect(await told(await owners.ask(place, 'own', member('endpoint_url', 'http://127.0.0.1')))).toMatchObject({
      status: 400,
      code: 'direct_node_targeting_not_allowed',
    })
    expect(owners.sent).toEqual([])
  })
})

test('§35: each door is asked', () => {
  expect(doors.every((door) => door in requests)).toBe(true)
})
