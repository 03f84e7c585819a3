import { describe, expect, test } from 'bun:test'
import { type ExpectedRefusal, expectRefusal } from '../../support/clients/chat-refusal.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { startOwnedPool } from '../../support/pools/owned-pool.ts'
import { fixture } from '../../support/run/fixture.ts'

/** Two machines name one model differently; the catalogue makes it one. */
const id = 'meta/llama-8b'
const aliases = ['llama:8b', 'Llama-8B-Q4.gguf']
const secret = 'the-prompt-nobody-may-see'
const messages = [{ role: 'user', content: secret }]
const owned = (models: readonly string[], contextLength: number | null = null) => ({
  owner: 'A',
  visibility: 'private' as const,
  fake: { models, contextLength },
})
const nodes = {
  ollama: owned(['llama:8b', 'solo'], 4_096),
  llamaCpp: owned(['Llama-8B-Q4.gguf']),
  plain: owned(['plain', 'other']),
  short: owned(['two-contexts'], 1_000),
  long: owned(['two-contexts'], 10_000),
}

const gateway = await fixture(startTestGateway({ env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000' } }))
const pool = await fixture(startOwnedPool(gateway, ['A', 'B'], nodes))
await gateway.admin('PUT', '/v1/admin/models', { id, aliases })

/** A new key with that policy; the account as told. */
async function withPolicy<T>(rules: Rules, body: (key: string) => Promise<T>): Promise<T> {
  await pool.account('A', rules.account ?? null)
  const { key, keyId } = await pool.key('A', rules.key === undefined ? {} : { model_policy: rules.key })
  const result = await body(key)
  await gateway.admin('DELETE', `/v1/admin/keys/${keyId}`)
  return result
}
interface Rules {
  readonly account?: object
  readonly key?: object
}

const refused = (status: number, code: string, param: string | null): ExpectedRefusal => ({
  status,
  code,
  param,
  retry: false,
})
const notAllowed = refused(403, 'model_not_allowed', 'model')

describe('§13: model patterns, exact or with a trailing *; deny wins; a model is judged by all its names', () => {
  const allow = (...models: string[]) => ({ allowed_models: models })
  const deny = (...models: string[]) => ({ denied_models: models })
  const cases: readonly (readonly [string, Rules, string, boolean])[] = [
    ['no rules', {}, 'plain', true],
    ['null is no rule', { account: { allowed_models: null } }, 'plain', true],
    ['allowed by its name', { key: allow('plain') }, 'plain', true],
    ['another is allowed', { key: allow('plain') }, 'other', false],
    ['a name is no prefix', { key: allow('plai') }, 'plain', false],
    ['allowed by a prefix', { key: allow('pla*') }, 'plain', true],
    ['a pattern equal to the name', { key: allow('plain*') }, 'plain', true],
    ['a case is not ignored', { key: allow('Plain') }, 'plain', false],
    ['a * within is no pattern', { key: allow('p*in') }, 'plain', false],
    ['allowed is everything', { key: allow('*') }, 'plain', true],
    ['allowed is nothing', { key: allow() }, 'plain', false],
    ['allowed by the account, not by the key', { account: allow('plain'), key: allow('other') }, 'plain', false],
    ['allowed by the key, not by the account', { account: allow('other'), key: allow('plain') }, 'plain', false],
    ['allowed by both, differently', { account: allow('p*'), key: allow('*') }, 'plain', true],
    ['denied by the account', { account: deny('plain') }, 'plain', false],
    ['denied by the key', { key: deny('pl*') }, 'plain', false],
    ['denied is everything', { key: deny('*') }, 'plain', false],
    ['denied wins in one policy', { key: { ...allow('plain'), ...deny('p*') } }, 'plain', false],
    ['denied by the account wins over the key', { account: deny('plain'), key: allow('plain') }, 'plain', false],
    ['denied by the key wins over the account', { account: allow('plain'), key: deny('plain') }, 'plain', false],
    ['allowed by its id, asked by an alias', { key: allow(id) }, 'llama:8b', true],
    ['allowed by an alias, asked by its id', { key: allow('llama:8b') }, id, true],
    ['allowed by one alias, asked by another', { key: allow('llama:*') }, 'Llama-8B-Q4.gguf', true],
    ['denied by its id, asked by an alias', { key: deny(id) }, 'Llama-8B-Q4.gguf', false],
    ['denied by an alias, asked by its id', { account: deny('llama:8b') }, id, false],
    ['denied by one alias, asked by another', { key: deny('Llama-8B*') }, 'llama:8b', false],
    ['allowed by its id and denied by an alias', { account: allow(id), key: deny('llama:*') }, id, false],
  ]
  test.each(cases.map((row) => [...row] as const))('%s', async (_name, rules, model, allowed) => {
    const before = pool.received(secret).length
    await withPolicy(rules, async (key) => {
      for (const stream of [false, true]) {
        const response = await gateway.chat(key, { model, messages, stream })
        if (allowed) expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('svc')])
        else await expectRefusal(response, notAllowed, secret)
      }
    })
    if (!allowed) expect(pool.received(secret).length).toBe(before)
  })
})

describe('§9: a catalogue entry pools what machines name differently', () => {
  test.each([id, ...aliases])(
    'asked as %s: both machines serve, each by its own name; the answer has the name asked',
    async (model) => {
      await withPolicy({}, async (key) => {
        for (const [name, upstream] of Object.entries({ ollama: 'llama:8b', llamaCpp: 'Llama-8B-Q4.gguf' })) {
          const svc = { node_id: pool.nodeId(name) }
          const whole = (await (await gateway.chat(key, { model, messages, svc })).json()) as { model: string }
          expect(whole.model).toBe(model)
          expect(pool.fake(name).requests.at(-1)?.body).toEqual({ model: upstream, messages })
        }
        const stream = await (await gateway.chat(key, { model, messages, stream: true })).text()
        const models = stream.match(/"model":"[^"]*"/g) ?? []
        expect(new Set(models)).toEqual(new Set([`"model":"${model}"`]))
      })
    },
  )

  test('the list has the id and no alias', async () => {
    await withPolicy({}, async (key) => {
      const response = await fetch(`${gateway.url}/v1/api/models`, { headers: { authorization: `Bearer ${key}` } })
      const { data } = (await response.json()) as { data: { id: string }[] }
      expect(data.map((model) => model.id)).toEqual([id, 'other', 'plain', 'solo', 'two-contexts'])
    })
  })

  test('an entry alone makes no model: nobody serves it', async () => {
    await gateway.admin('PUT', '/v1/admin/models', { id: 'vapour', aliases: ['vapour:1'] })
    await withPolicy({}, async (key) => {
      for (const model of ['vapour', 'vapour:1']) {
        await expectRefusal(
          await gateway.chat(key, { model, messages }),
          refused(404, 'model_not_found', 'model'),
          secret,
        )
      }
    })
  })
})

describe('§3: context_length_exceeded, by the machine’s context and by the catalogue’s, whichever is less', () => {
  /** A text that has at least so many tokens: 0.12 a character (§27). */
  const prompt = (tokens: number) => [{ role: 'user', content: 'x'.repeat(Math.ceil((tokens * 100) / 12)) }]
  const tooLong = refused(400, 'context_length_exceeded', 'messages')
  const ask = (model: string, tokens: number, more: object = {}) =>
    withPolicy({}, (key) => gateway.chat(key, { model, messages: prompt(tokens), ...more }))

  test('the machine’s', async () => {
    await expectRefusal(await ask('solo', 4_097), tooLong, 'xxx')
    expect((await ask('solo', 4_096)).status).toBe(200)
  })

  test('where machines differ the longer one serves', async () => {
    for (let i = 0; i < 4; i++) {
      const before = pool.fake('short').requests.length
      expect((await ask('two-contexts', 5_000)).status).toBe(200)
      expect(pool.fake('short').requests.length).toBe(before)
    }
    await expectRefusal(await ask('two-contexts', 10_001), tooLong, 'xxx')
    const svc = { node_id: pool.nodeId('short') }
    await expectRefusal(await ask('two-contexts', 5_000, { svc }), tooLong, 'xxx')
  })

  test('the catalogue’s, for machines that do not say', async () => {
    await gateway.admin('PUT', '/v1/admin/models', { id: 'plain', context_length: 500 })
    await expectRefusal(await ask('plain', 501), tooLong, 'xxx')
    expect((await ask('plain', 500)).status).toBe(200)
    await gateway.admin('DELETE', '/v1/admin/models', { id: 'plain' })
    expect((await ask('plain', 501)).status).toBe(200)
  })

  test('the catalogue’s figure makes no machine’s context longer', async () => {
    await gateway.admin('PUT', '/v1/admin/models', { id: 'solo', context_length: 100_000 })
    await expectRefusal(await ask('solo', 4_097), tooLong, 'xxx')
    await gateway.admin('DELETE', '/v1/admin/models', { id: 'solo' })
  })
})

describe('§13: max_tokens_per_request', () => {
  const told = () => pool.fake('plain').requests.at(-1)?.body as Record<string, unknown>
  const cases: readonly (readonly [string, Rules, object, object | null])[] = [
    ['none: nothing is added', {}, {}, {}],
    ['of the key, not asked: injected', { key: { max_tokens_per_request: 50 } }, {}, { max_tokens: 50 }],
    ['of the account, not asked: injected', { account: { max_tokens_per_request: 60 } }, {}, { max_tokens: 60 }],
    [
      'of both: the lower one',
      { account: { max_tokens_per_request: 60 }, key: { max_tokens_per_request: 50 } },
      {},
      { max_tokens: 50 },
    ],
    ['asked for as many', { key: { max_tokens_per_request: 50 } }, { max_tokens: 50 }, { max_tokens: 50 }],
    ['asked for less', { key: { max_tokens_per_request: 50 } }, { max_tokens: 5 }, { max_tokens: 5 }],
    [
      'asked by the alias',
      { key: { max_tokens_per_request: 50 } },
      { max_completion_tokens: 5 },
      { max_completion_tokens: 5 },
    ],
    ['null is not asked', { key: { max_tokens_per_request: 50 } }, { max_tokens: null }, { max_tokens: 50 }],
    ['asked for more', { key: { max_tokens_per_request: 50 } }, { max_tokens: 51 }, null],
    ['asked for more by the alias', { account: { max_tokens_per_request: 50 } }, { max_completion_tokens: 51 }, null],
    [
      'asked for more than the account’s',
      { account: { max_tokens_per_request: 5 }, key: { max_tokens_per_request: 50 } },
      { max_tokens: 6 },
      null,
    ],
  ]
  test.each(cases.map((row) => [...row] as const))('%s', async (_name, rules, asked, sent) => {
    await withPolicy(rules, async (key) => {
      const response = await gateway.chat(key, { model: 'plain', messages, ...asked })
      if (sent === null) {
        await expectRefusal(response, refused(400, 'max_tokens_exceeded', 'max_tokens'), secret)
        return
      }
      expect(response.status).toBe(200)
      expect(told()).toEqual({ model: 'plain', messages, ...sent })
    })
  })
})
