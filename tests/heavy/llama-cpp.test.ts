import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { type LlamaServer, llamaPython, startLlamaServer } from '../support/nodes/llama-server.ts'

/** llama.cpp's own server code, as its users run it, behind a whole gateway. Needs Python and PyPI. */
const python = await llamaPython()
if (python === null)
  console.log('skipped: the packages of tests/support/nodes/llama-server.ts cannot be installed from PyPI')

const contextTokens = 8_192
const user = (content: unknown) => [{ role: 'user', content }]

describe.skipIf(python === null)('§27 with a real llama.cpp', () => {
  let server: LlamaServer
  let gateway: TestGateway
  let customer: TestCustomer
  let model: string
  beforeAll(async () => {
    server = await startLlamaServer(python ?? '', { contextTokens, slots: 2 })
    gateway = await startTestGateway()
    customer = await gateway.customer()
    await gateway.node(server.url, { customerId: customer.customerId })
    const models = await fetch(`${gateway.url}/v1/api/models`, { headers: { authorization: `Bearer ${customer.key}` } })
    model = ((await models.json()) as { data: { id: string }[] }).data[0]?.id ?? ''
  })
  afterAll(async () => {
    await gateway.stop()
    await server.stop()
  })

  const busySlots = async () => {
    const slots = (await (await fetch(`${server.url}/slots`)).json()) as { is_processing: boolean }[]
    return slots.filter((slot) => slot.is_processing).length
  }
  const endless = { max_tokens: 8_000, ignore_eos: true }

  test('a whole answer that is abandoned while another stream runs frees its slot within a second', async () => {
    const stream = await gateway.chat(customer.key, { model, messages: user('on and on'), stream: true, ...endless })
    const reader = stream.body?.getReader()
    expect((await reader?.read())?.done).toBe(false)
    const leave = new AbortController()
    const whole = gateway.chat(
      customer.key,
      { model, messages: user('never mind'), ...endless },
      { signal: leave.signal },
    )
    await waitFor('both slots to work', async () => (await busySlots()) === 2)
    leave.abort()
    const leftMs = performance.now()
    await expect(whole).rejects.toThrow()
    await waitFor('its slot to be free', async () => (await busySlots()) < 2, 5_000)
    const freedMs = performance.now() - leftMs
    // The other one was at work all the time: the server had traffic.
    expect((await reader?.read())?.done).toBe(false)
    expect(freedMs).toBeLessThan(1_000)
    await reader?.cancel()
    await waitFor('all slots to be free', async () => (await busySlots()) === 0, 5_000)
    console.log(`a slot was free ${freedMs.toFixed(0)} ms after its client had left`)
  })

  test('a picture for a text model is refused once, and the route goes on', async () => {
    const picture = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }
    for (let i = 0; i < 8; i++) {
      const response = await gateway.chat(customer.key, { model, messages: user([picture]), max_tokens: 5 })
      const { error } = (await response.json()) as { error: { code: string; svc: { retryable: boolean } } }
      expect([response.status, error.code, error.svc.retryable]).toEqual([400, 'unsupported_input', false])
      expect(response.headers.get('x-should-retry')).toBe('false')
    }
    const after = await gateway.chat(customer.key, { model, messages: user('hello'), max_tokens: 5 })
    expect(after.status).toBe(200)
    await after.body?.cancel()
  })

  test('a prompt of three quarters of the context is answered; one beyond it is refused with the numbers', async () => {
    // The tiny model has a token for each of most characters.
    const prompt = 'b'.repeat(contextTokens * 0.75)
    const fits = await gateway.chat(customer.key, { model, messages: user(prompt), max_tokens: 5 })
    const { usage } = (await fits.json()) as { usage: { prompt_tokens: number } }
    expect(fits.status).toBe(200)
    expect(usage.prompt_tokens).toBeGreaterThan(contextTokens * 0.7)
    const beyond = await gateway.chat(customer.key, { model, messages: user('b'.repeat(contextTokens)), max_tokens: 5 })
    const { error } = (await beyond.json()) as { error: { code: string; message: string } }
    expect([beyond.status, error.code]).toEqual([400, 'context_length_exceeded'])
    expect(error.message).toContain(String(contextTokens))
  })
})
