import { afterEach, describe, expect, spyOn, test } from 'bun:test'
import { Problem } from '../../../src/errors.ts'
import { MemoryBudget } from '../../../src/host/budget.ts'
import { FormBody } from '../../../src/protocol/media/form-body.ts'

const MiB = 1024 * 1024
const memory = new MemoryBudget(256 * MiB, 64 * MiB)
const partHead = (name: string) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n`
const named = Buffer.from(`\r\n${partHead('model')}m\r\n--b--\r\n`)

/** A form whose bytes come when the test says so. */
function sentForm(customerId: string) {
  let out: ReadableStreamDefaultController<Uint8Array> | null = null
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      out = controller
    },
  })
  const request = new Request('http://gateway/', {
    method: 'POST',
    headers: { 'content-type': 'multipart/form-data; boundary=b' },
    body,
  })
  const form = FormBody.of(request, { dropped: new Set(), check: () => {} }, { memory, customerId })
  const send = (bytes: string | Uint8Array) => out?.enqueue(Buffer.from(bytes))
  return { form, send }
}
/** So much of a file before the name of its model. */
function heldForm(customerId: string, bytes: number) {
  const { form, send } = sentForm(customerId)
  for (const piece of [partHead('file'), new Uint8Array(bytes), named]) send(piece)
  return { form, model: form.model() }
}
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) => (error instanceof Problem ? error.code : error),
  )

/** All that can run runs. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await Promise.resolve()
}

let clock: { mockRestore(): void } | null = null
afterEach(() => {
  clock?.mockRestore()
  clock = null
})

describe('§28: forms that are held', () => {
  test('§17: one customer’s forms fill its share; another one’s form is taken, and what was closed counts no more', async () => {
    const forms = [20, 20, 20].map((size) => heldForm('cus_1', size * MiB))
    expect(await Promise.all(forms.map(({ model }) => model))).toEqual(['m', 'm', 'm'])
    expect(memory.admits('cus_1')).toBe(true)
    const more = heldForm('cus_1', 3 * MiB)
    expect(await more.model).toBe('m')
    const other = heldForm('cus_2', 20 * MiB)
    expect(await other.model).toBe('m')
    for (const { form } of [...forms, more, other]) form.close()
    expect(memory.bytes).toBe(0)
    const again = heldForm('cus_1', 20 * MiB)
    expect(await again.model).toBe('m')
    again.form.close()
    expect(memory.bytes).toBe(0)
  })

  test('§17: a form beyond the share ends the customer’s largest, which says why', async () => {
    const large = sentForm('cus_5')
    const waits = codeOf(large.form.model())
    large.send(partHead('file'))
    for (let at = 0; at < 24; at++) large.send(new Uint8Array(MiB))
    await turns()
    const forms = [15, 15].map((size) => heldForm('cus_5', size * MiB))
    expect(await Promise.all(forms.map(({ model }) => model))).toEqual(['m', 'm'])
    const last = heldForm('cus_5', 15 * MiB)
    expect(await last.model).toBe('m')
    expect(await waits).toBe('rate_limited')
    for (const { form } of [...forms, last, large]) form.close()
    expect(memory.bytes).toBe(0)
  })

  test.each([
    [16_000 * 20 + 1_000, null],
    [16_000 * 20 - 1_000, 'invalid_request'],
  ])('a form brings 16 kB/s after 5 s: %i bytes within 25 s', async (bytes, outcome) => {
    const { form, send } = sentForm('cus_6')
    const model = codeOf(form.model())
    send(partHead('file'))
    await turns()
    const startedMs = performance.now()
    clock = spyOn(performance, 'now').mockImplementation(() => startedMs + 25_000)
    const head = Buffer.byteLength(partHead('file'))
    send(Buffer.concat([new Uint8Array(bytes - head - named.length), named]))
    expect(await model).toBe(outcome)
    form.close()
  })

  test('what arrives while nobody wants a form any more is not held', async () => {
    for (let round = 0; round < 70; round++) {
      const { form, send } = sentForm('cus_3')
      send(`${partHead('model')}m\r\n${partHead('file')}`)
      send(new Uint8Array(MiB))
      await form.model()
      const body = form.open('m')
      let taken = 0
      while (taken < MiB) taken += (await body.next())?.length ?? 0
      const next = body.next().catch(() => null)
      await turns()
      send(Buffer.concat([Buffer.from(`x\r\n${partHead('more')}`), new Uint8Array(MiB)]))
      // The stream has given the pieces, and the form has not got them. Of those nobody takes more than the first.
      form.close()
      await next
    }
    expect(memory.bytes).toBe(0)
  })

  test('a form names its model within two minutes, however steadily it comes', async () => {
    const { form, send } = sentForm('cus_4')
    const model = codeOf(form.model())
    send(partHead('file'))
    send(new Uint8Array(3 * MiB))
    await turns()
    const startedMs = performance.now()
    clock = spyOn(performance, 'now').mockImplementation(() => startedMs + 121_000)
    send(named)
    expect(await model).toBe('invalid_request')
    form.close()
  })
})
