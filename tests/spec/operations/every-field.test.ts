import { describe, expect, test } from 'bun:test'
import { upstreamStripped } from '../../../src/protocol/chat/upstream-request.ts'
import type { Door } from '../../../src/protocol/dialects/field.ts'
import { fields } from '../../../src/protocol/dialects/fields.ts'
import { startOllamaNode } from '../../support/nodes/ollama-node.ts'
import {
  type Asked,
  doorOf,
  emptyOf,
  FieldDoors,
  type Fields,
  fieldsOf,
  given,
  membersOf,
  type Place,
  places,
  sampleOf,
} from '../../support/pools/field-doors.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

/** Each field of the table through each door, and what the node behind it was sent (§35). */
const doors = await fixture(FieldDoors.start())

const ask = (place: Place, more?: Fields) => doors.ask(place, more)
/** The node cannot tell the one from the other. */
const told = ({ status, sent }: Asked) => ({ status, sent })

describe.each(places)('§35: every field has its fate: %s', (place) => {
  const door = doorOf(place)

  test.each(fieldsOf(place))('%s', async (name) => {
    const fate = fields[name]?.at[door]
    const [plain, asked] = [await ask(place), await ask(place, given(place, name, sampleOf(name)))]
    switch (fate) {
      case 'carried':
        expect(asked.sent).toMatchObject({ [name]: sampleOf(name) })
        break
      case 'mapped':
        // The forms: tests/spec/fields/mapped-fields.test.ts.
        expect(asked.status).toBe(200)
        expect(asked.sent).not.toEqual(plain.sent)
        break
      case 'refused':
        // By its name: the client learns what to leave out.
        expect(told(asked)).toEqual({ status: 400, sent: null })
        expect(asked.text).toContain(name)
        break
      default:
        // A hint, or dropped: the node cannot tell.
        expect(['hint', 'dropped']).toContain(fate as string)
        expect(told(asked)).toEqual(told(plain))
        expect(asked.status).toBe(200)
    }
  })

  const carried = fieldsOf(place).filter((name) => fields[name]?.at[door] === 'carried')
  test('what is carried is carried where it is 0, false or empty, too', async () => {
    const lost: unknown[] = []
    for (const name of carried) {
      for (const value of emptyOf(name, door)) {
        const { status, sent } = await ask(place, given(place, name, value))
        if (status !== 200 || JSON.stringify(sent?.[name]) !== JSON.stringify(value)) lost.push([name, value, status])
      }
    }
    expect(lost).toEqual([])
  })
})

describe.each(places)('§35: a field of another dialect does not disappear in silence: %s', (place) => {
  // `/api/generate` has `suffix` itself, and refuses it.
  const own = new Set([...membersOf(place), ...(place === 'ollama' ? ['suffix'] : [])])
  const names = Object.keys(fields).filter((name) => fields[name]?.at[doorOf(place)] === undefined && !own.has(name))

  test.each(names)('%s', async (name) => {
    const asked = await ask(place, { [name]: sampleOf(name) })
    expect(told(asked)).toEqual({ status: 200, sent: expect.objectContaining({ [name]: sampleOf(name) }) })
  })
})

test('§35: what chat drops, takes as a hint or refuses has its fate at every door that becomes a chat', () => {
  const translated = ['responses', 'messages', 'ollama'] as const
  const open = Object.keys(fields).filter((name) => {
    const at = fields[name]?.at ?? {}
    return at.chat !== undefined && at.chat !== 'carried' && translated.some((door) => at[door] === undefined)
  })
  expect(open).toEqual([])
})

test('§35: no field has two meanings: what a door has in its place is refused there', () => {
  for (const { at, instead = {} } of Object.values(fields)) {
    for (const door of Object.keys(instead) as Door[]) expect(at[door]).toBe('refused')
  }
})

test('§5: no node gets what is dropped or a hint at chat, whichever dialect it came in', () => {
  expect([...upstreamStripped].sort()).toEqual(
    'cache_control metadata models prompt_cache_key safety_identifier service_tier store svc user'.split(' '),
  )
})

describe('§35: thinking is switched as the node’s kind has it', () => {
  test.each([
    ['enabled', true],
    ['disabled', false],
  ])('Messages, %s', async (type, on) => {
    const { sent: got } = await ask('messages', { thinking: { type, budget_tokens: 1_024 } })
    expect(got).toMatchObject({ chat_template_kwargs: { enable_thinking: on, thinking: on } })
  })

  test('Messages, adaptive: the model’s own default stands', async () => {
    expect(told(await ask('messages', { thinking: { type: 'adaptive' } }))).toEqual(told(await ask('messages')))
  })

  test('beside what the client tells the template itself, which stands', async () => {
    const own = { chat_template_kwargs: { enable_thinking: true, tone: 'kind' }, thinking: { type: 'disabled' } }
    const { sent: got } = await ask('messages', own)
    expect(got).toMatchObject({ chat_template_kwargs: { enable_thinking: true, thinking: false, tone: 'kind' } })
  })

  test('a hosted provider is told nothing: what it knows is not known here', async () => {
    const message = { role: 'assistant', content: 'a' }
    const nodeId = await doors.node('hosted', (call) => {
      call.respond(200, { choices: [{ index: 0, finish_reason: 'stop', message }] })
    })
    await doors.gateway.admin('PATCH', `/v1/admin/nodes/${nodeId}`, { external: true })
    const answer = await ask('messages', { model: 'hosted', thinking: { type: 'disabled' } })
    expect(answer.status).toBe(200)
    expect(answer.sent).not.toHaveProperty('chat_template_kwargs')
  })

  test('Ollama is told not to think by OpenAI’s word, and is told nothing where the model shall think', async () => {
    await using ollama = await scoped(startOllamaNode({ models: ['o'] }))
    const lastChat = () => ollama.calls.findLast(({ path }) => path === '/v1/chat/completions')?.body
    await doors.gateway.node(ollama.url, { customerId: doors.customer.customerId })
    expect((await ask('messages', { model: 'o', thinking: { type: 'disabled' } })).status).toBe(200)
    expect(lastChat()).toMatchObject({ reasoning_effort: 'none' })
    expect(lastChat()).not.toHaveProperty('chat_template_kwargs')
    expect((await ask('messages', { model: 'o', thinking: { type: 'enabled', budget_tokens: 1_024 } })).status).toBe(
      200,
    )
    expect(lastChat()).not.toHaveProperty('reasoning_effort')
  })
})
