import { describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { Ollama } from 'ollama'
import OpenAI from 'openai'
import { type ProblemCode, problemKind, problemKinds } from '../../../src/errors.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { helpFamilies } from '../../../src/http/docs/errors-page.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { json, startTestGateway as startHttpGateway } from '../../support/gateways/http-gateway.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const codes = Object.keys(problemKinds) as ProblemCode[]
const publicUrl = 'https://door.example.org'

const gateway = await fixture(startTestGateway({ env: { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_PROCESSES: '1' } }))
const node = await fixture(startFakeNode({ models: ['talker'] }))
const customer = await gateway.customer()
await gateway.node(node.url, { customerId: customer.customerId })

const page = async () => (await fetch(`${gateway.url}/docs/errors`)).text()
/** The part of the page that a link leads to. */
const articleOf = (html: string, code: string) =>
  new RegExp(`<article id="${code}">([\\s\\S]*?)</article>`).exec(html)?.[1] ?? ''
const plain = (html: string) =>
  html
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&')
    .replaceAll(/\s+/g, ' ')

describe('§2: /docs/errors', () => {
  test('explains every code once: status, meaning, next step, and whether a retry helps', async () => {
    const html = await page()
    const anchors = [...html.matchAll(/<article id="([^"]+)">/g)].map(([, id]) => id)
    expect(anchors.toSorted()).toEqual(codes.toSorted())
    const told = helpFamilies.flatMap(({ codes: family }) => Object.entries(family))
    expect(told.map(([code]) => code).toSorted()).toEqual(codes.toSorted())
    for (const [code, help] of told) {
      const text = plain(articleOf(html, code))
      const { status, title, shouldRetry = false } = problemKind(code as ProblemCode)
      expect([code, text]).toEqual([code, expect.stringContaining(`HTTP ${status}`)])
      const words = (said: string) => said.replaceAll('`', ' ').replaceAll(/\s+/g, ' ').trim()
      for (const said of [title, help.means, help.next]) {
        expect([code, words(text)]).toEqual([code, expect.stringContaining(words(said))])
      }
      expect([code, text.includes('Does a retry help? Yes')]).toEqual([code, shouldRetry])
      expect([code, help.means, help.next]).toEqual([
        code,
        expect.stringMatching(/^[A-Z`/].+\.$/),
        expect.stringMatching(/^[A-Z`].+\.$/),
      ])
    }
  })

  test('says of every code who can mend it, and shows an answer with the code, its status and its link', async () => {
    const html = await page()
    for (const code of codes) {
      const article = articleOf(html, code)
      expect([code, plain(article)]).toEqual([
        code,
        expect.stringMatching(/Who can mend it (The sender|The operator of the node|An operator|Nobody)/),
      ])
      const [, shown = ''] = /<pre><code>([\s\S]*?)<\/code><\/pre>/.exec(article) ?? []
      const body = JSON.parse(plain(shown))
      const { status, title } = problemKind(code)
      const facts = body.error === undefined ? body : { ...body.error.svc, code: body.error.code }
      expect([code, facts]).toEqual([code, expect.objectContaining({ code, status, help_url: `/docs/errors#${code}` })])
      expect([code, String(body.error?.message ?? body.detail)]).toEqual([
        code,
        expect.stringMatching(/^[A-Za-z].{5,}/),
      ])
      if (body.error === undefined) expect(body.title).toBe(title)
    }
  })

  test('an example says what the gateway says', async () => {
    const html = await page()
    const [, shown = ''] = /<pre><code>([\s\S]*?)<\/code><\/pre>/.exec(articleOf(html, 'invalid_request')) ?? []
    const messages = [{ role: 'user', content: 'hello' }]
    const answer = await gateway.chat(customer.key, { model: 'talker', temperature: 3, messages })
    const { error } = (await answer.json()) as { readonly error: { readonly message: string } }
    expect(JSON.parse(plain(shown)).error.message).toBe(error.message)
  })

  test('needs no other host and no script, and every link of it leads somewhere', async () => {
    const response = await fetch(`${gateway.url}/docs/errors`)
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    const policy = response.headers.get('content-security-policy') ?? ''
    expect(policy).toStartWith("default-src 'none'; style-src 'self';")
    expect(policy).not.toMatch(/script-src|unsafe|http/)
    const html = await response.text()
    expect(html).not.toMatch(/<script|style=|https?:\/\//)
    const ids = new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))
    for (const [, target = ''] of html.matchAll(/(?:href|src)="([^"]+)"/g)) {
      if (target.startsWith('#')) expect([target, ids.has(target.slice(1))]).toEqual([target, true])
      else expect([target, (await fetch(gateway.url + target)).status]).toEqual([target, 200])
    }
  })
})

/** What any envelope says, in one shape. */
async function linked(path: string, init: RequestInit = {}, base = gateway.url) {
  const response = await fetch(base + path, init)
  const body = await response.json()
  const svc = body.svc ?? body.error?.svc ?? body
  return { status: response.status, code: body.code ?? svc.code ?? body.error.code, help: svc.help_url as string }
}
const asked = (headers: Record<string, string>, body: object): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
})

test('§2: each error body links to its code on that page, in every envelope', async () => {
  const html = await page()
  const key = { authorization: `Bearer ${customer.key}` }
  const all = [
    await linked('/v1/chat/completions', asked(key, { model: 'talker' })),
    await linked('/v1/api/models', asked(key, {})),
    await linked(
      '/v1/messages',
      asked(key, { model: 'nothing', max_tokens: 1, messages: [{ role: 'user', content: 'x' }] }),
    ),
    await linked('/v1/messages', asked({ 'x-api-key': 'wrong', 'anthropic-version': '2023-06-01' }, {})),
    await linked(
      '/api/chat',
      asked(key, { model: 'nothing', messages: [{ role: 'user', content: 'x' }] }),
      gateway.ollamaUrl ?? '',
    ),
    await linked('/v1/admin/nodes'),
    await linked('/v1/billing/account'),
    await linked('/nothing/here'),
    await linked('/v1/nothing/here'),
  ]
  expect(all.map(({ code }) => code)).toEqual([
    'invalid_request',
    'method_not_allowed',
    'model_not_found',
    'invalid_api_key',
    'model_not_found',
    'missing_credentials',
    'missing_credentials',
    'route_not_found',
    'route_not_found',
  ])
  for (const { code, help } of all) {
    expect(help).toBe(`${gateway.url}/docs/errors#${code}`)
    expect(articleOf(html, code)).not.toBe('')
  }
})

test('§2: the link has the public address where there is one', async () => {
  await using named = await scoped(startHttpGateway({ SVC_PUBLIC_URL: `${publicUrl}/` }))
  const answer = await json(await named.ask('GET', '/v1/admin/nodes'))
  expect(answer.help_url).toBe(`${publicUrl}/docs/errors#missing_credentials`)
})

describe('§2: the published SDKs still read the errors', () => {
  const rejected = async (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => null,
      (error: unknown) => error,
    )
  const sentence = 'max_tokens must be a whole number of at least 1; you sent -1.'
  const help = () => `${gateway.url}/docs/errors#invalid_request`
  const messages = [{ role: 'user' as const, content: 'hi' }]

  test('openai', async () => {
    const client = new OpenAI({ apiKey: customer.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
    const error = await rejected(client.chat.completions.create({ model: 'talker', messages, max_tokens: -1 }))
    if (!(error instanceof OpenAI.BadRequestError)) throw new Error(String(error))
    expect([error.message, error.code, error.param, error.type]).toEqual([
      `400 ${sentence}`,
      'invalid_request',
      'max_tokens',
      'invalid_request_error',
    ])
    expect(error.error).toMatchObject({ svc: { help_url: help() } })
  })

  test('@anthropic-ai/sdk', async () => {
    const client = new Anthropic({ apiKey: customer.key, baseURL: gateway.url, maxRetries: 0 })
    const error = await rejected(client.messages.create({ model: 'talker', messages, max_tokens: -1 }))
    if (!(error instanceof Anthropic.BadRequestError)) throw new Error(String(error))
    expect(error.message).toContain(sentence)
    expect(error.error).toMatchObject({
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message: sentence,
        svc: { code: 'invalid_request', param: 'max_tokens', help_url: help() },
      },
    })
  })

  test('ollama', async () => {
    const client = new Ollama({ host: gateway.ollamaUrl ?? '', headers: { authorization: `Bearer ${customer.key}` } })
    const error = await rejected(client.chat({ model: 'talker', messages, options: { temperature: 7 } }))
    expect(error).toMatchObject({
      status_code: 400,
      error: 'options.temperature must be a number of at most 2; you sent 7.',
    })
  })
})
