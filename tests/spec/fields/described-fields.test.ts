import { describe, expect, test } from 'bun:test'
import { type TObject, Type } from '@sinclair/typebox'
import { type Door, doors } from '../../../src/protocol/dialects/field.ts'
import { fields, valueAt } from '../../../src/protocol/dialects/fields.ts'
import { ChatRequest } from '../../../src/protocol/wire/inference/chat.ts'
import { CompletionRequest } from '../../../src/protocol/wire/inference/completions.ts'
import { EmbeddingsRequest } from '../../../src/protocol/wire/inference/embeddings.ts'
import { MessagesRequest } from '../../../src/protocol/wire/inference/messages.ts'
import { OllamaChatRequest, OllamaGenerateRequest, OllamaOptions } from '../../../src/protocol/wire/inference/ollama.ts'
import { PooledRerankRequest } from '../../../src/protocol/wire/inference/rerank.ts'
import { ResponsesRequest } from '../../../src/protocol/wire/inference/responses.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

interface Described {
  readonly properties: Readonly<Record<string, object>>
}
interface Media {
  readonly schema: Described
  readonly example?: object
  readonly examples?: Readonly<Record<string, { readonly value: object }>>
}
interface Document {
  readonly paths: Readonly<
    Record<string, { readonly post?: { readonly requestBody: { readonly content: Record<string, Media> } } }>
  >
  readonly components: { readonly schemas: Readonly<Record<string, Described>> }
}

const gateway = await fixture(startTestGateway())
const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as Document

const checked: Readonly<Record<Door, readonly TObject[]>> = {
  chat: [ChatRequest],
  completions: [CompletionRequest],
  embeddings: [EmbeddingsRequest],
  rerank: [PooledRerankRequest],
  responses: [ResponsesRequest],
  messages: [MessagesRequest],
  ollama: [OllamaChatRequest, OllamaGenerateRequest, OllamaOptions],
}
/** Ollama's interface stands on a listener of its own, which has no document. */
const paths: Readonly<Record<Exclude<Door, 'ollama'>, string>> = {
  chat: '/v1/api/chat/completions',
  completions: '/v1/api/completions',
  embeddings: '/v1/api/embeddings',
  rerank: '/v1/api/rerank',
  responses: '/v1/api/responses',
  messages: '/v1/api/messages',
}
function mediaAt(door: keyof typeof paths): Media {
  const media = document.paths[paths[door]]?.post?.requestBody.content['application/json']
  if (media === undefined) throw new Error(`${door} is not described`)
  return media
}
const describedAt = (door: keyof typeof paths): Described =>
  door === 'chat' ? (document.components.schemas.ChatRequest as Described) : mediaAt(door).schema

/** Prompts that are called as another door's field. */
const prompts: ReadonlySet<string> = new Set(['completions prompt', 'ollama prompt', 'rerank documents'])
const isPrompt = (door: Door, name: string) => prompts.has(`${door} ${name}`)

const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

test.each(doors)('§35: what a door checks of a field stands in the table alone: %s', (door) => {
  const own = checked[door].flatMap(({ properties }) => Object.entries(properties))
  const ofTable = own.filter(([name]) => Object.hasOwn(fields, name) && name !== 'svc' && !isPrompt(door, name))
  expect(ofTable.length).toBeGreaterThan(0)
  for (const [name, schema] of ofTable) {
    const row = fields[name]
    const value = row === undefined ? Type.Never() : valueAt(row, door)
    expect(row?.at[door]).toBeDefined()
    expect([asJson(value), asJson(Type.Union([value, Type.Null()]))]).toContainEqual(asJson(schema))
  }
})

describe.each(Object.keys(paths) as (keyof typeof paths)[])('§35: OpenAPI has every field of the table: %s', (door) => {
  test('with a type, and those that are refused are none of the request', () => {
    const { properties } = describedAt(door)
    for (const [name, row] of Object.entries(fields)) {
      if (isPrompt(door, name)) continue
      const fate = row.at[door]
      const isChecked = checked[door].some(({ properties: own }) => Object.hasOwn(own, name))
      if (fate === undefined || (fate === 'refused' && !isChecked))
        expect([name, properties[name]]).toEqual([name, undefined])
      else
        expect([name, Object.keys(properties[name] ?? {})]).toEqual([
          name,
          expect.arrayContaining([expect.any(String)]),
        ])
    }
  })

  test('its examples are requests that the door takes', async () => {
    const { key } = await gateway.customer()
    const { example, examples = {} } = mediaAt(door)
    const all = example === undefined ? Object.values(examples).map(({ value }) => value) : [example]
    expect(all.length).toBeGreaterThan(0)
    for (const body of all) {
      const response = await postJson(gateway.url + paths[door], key, body)
      // Nobody serves its models.
      expect(await response.text()).toMatch(/"(model_not_found|mixture_quorum_not_met)"/)
    }
  })

  test('with the range that the table says', () => {
    const { properties } = describedAt(door)
    for (const [name, { value, valueAt: others, at }] of Object.entries(fields)) {
      const { minimum, maximum } = (others?.[door] ?? value) as { minimum?: number; maximum?: number }
      if (at[door] === undefined || at[door] === 'refused' || (minimum ?? maximum) === undefined) continue
      const described = JSON.stringify(properties[name])
      if (minimum !== undefined)
        expect([name, described]).toEqual([name, expect.stringContaining(`"minimum":${minimum}`)])
      if (maximum !== undefined)
        expect([name, described]).toEqual([name, expect.stringContaining(`"maximum":${maximum}`)])
    }
  })
})

test('§35: each row has a type, and names of doors that have the field', () => {
  for (const [name, { value, valueAt: others = {}, at }] of Object.entries(fields)) {
    expect([name, Object.keys(at).length > 0]).toEqual([name, true])
    for (const door of Object.keys(others) as Door[])
      expect([name, door, at[door] !== undefined]).toEqual([name, door, true])
    // Anything goes in a field of which the gateway only says that it is refused.
    if (!Object.values(at).every((fate) => fate === 'refused')) {
      expect([name, 'type' in value || 'anyOf' in value || 'const' in value]).toEqual([name, true])
    }
  }
})
