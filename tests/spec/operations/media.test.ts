import { describe, expect, test } from 'bun:test'
import OpenAI, { toFile } from 'openai'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

const MiB = 1024 * 1024
const boundary = 'form-of-the-test'
const formType = { 'content-type': `multipart/form-data; boundary=${boundary}` }
const partHead = (name: string, more = '') =>
  `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n`
const field = (name: string, value: string) => `${partHead(name)}${value}\r\n`
const fileHead = partHead('file', '; filename="a.wav"')
const formEnd = `\r\n--${boundary}--\r\n`

type Answer = (request: Request) => Response | Promise<Response>
interface MediaNode {
  readonly url: string
  answer: Answer
  calls: number
  stop(): Promise<void>
}
/** A real server, which reads a form as it comes. */
function startMediaNode(models: readonly string[]): MediaNode {
  const list = { object: 'list', data: models.map((id) => ({ id, object: 'model' })) }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 60,
    fetch: (request) => {
      if (request.method === 'GET') {
        return new URL(request.url).pathname === '/v1/models'
          ? Response.json(list)
          : new Response(null, { status: 404 })
      }
      node.calls++
      return node.answer(request)
    },
  })
  const node: MediaNode = {
    url: `http://127.0.0.1:${server.port}`,
    answer: () => new Response(null, { status: 500 }),
    calls: 0,
    stop: () => server.stop(true),
  }
  return node
}

const gateway = await fixture(startTestGateway({ env: { SVC_EJECTION_CALLS: '1000000', SVC_QUEUE_WAIT_MS: '50' } }))
const customer = await gateway.customer()
const node = await fixture(startMediaNode(['whisper-1', 'tts-1', 'flux.1']))
const second = await fixture(startMediaNode(['whisper-1']))
await gateway.node(node.url, { customerId: customer.customerId })
const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: customer.key, maxRetries: 0 })

const transcribe = (body: BodyInit, { key = customer.key, signal }: { key?: string; signal?: AbortSignal } = {}) =>
  fetch(`${gateway.url}/v1/audio/transcriptions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, ...formType },
    body,
    ...(signal === undefined ? {} : { signal }),
  })
const speak = (body: object = {}) =>
  postJson(`${gateway.url}/v1/audio/speech`, customer.key, { model: 'tts-1', input: 'hi', voice: 'alloy', ...body })
const codeOf = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string } }
  return [response.status, error.code]
}
const idle = () =>
  waitFor('no call is open', async () => {
    const { nodes } = await gateway.admin<{ nodes: { in_flight: number }[] }>('GET', '/v1/admin/nodes')
    return nodes.every(({ in_flight: calls }) => calls === 0)
  })
/** Bytes that are written when the test says so. */
function slowBody() {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const writer = writable.getWriter()
  return {
    readable,
    write: (text: string | Uint8Array) => writer.write(Buffer.from(text)),
    close: () => writer.close(),
    writer,
  }
}

describe('§28: sound and pictures by OpenAI’s SDK', () => {
  test('speech becomes text: the form arrives with every field, and the file as it was', async () => {
    let seen: unknown
    node.answer = async (request) => {
      const form = await request.formData()
      const file = form.get('file') as unknown as File
      seen = [new URL(request.url).pathname, form.get('model'), form.get('language'), file.name, await file.text()]
      return Response.json({
        text: 'la',
        usage: { type: 'tokens', input_tokens: 3, output_tokens: 1, total_tokens: 4 },
      })
    }
    const file = () => toFile(Buffer.from('\r\n--not-a-boundary\r\nla'), 'a.wav')
    expect(
      await client.audio.transcriptions.create({ file: await file(), model: 'whisper-1', language: 'en' }),
    ).toMatchObject({ text: 'la' })
    expect(seen).toEqual(['/v1/audio/transcriptions', 'whisper-1', 'en', 'a.wav', '\r\n--not-a-boundary\r\nla'])
    await client.audio.translations.create({ file: await file(), model: 'whisper-1' })
    expect(seen).toEqual(['/v1/audio/translations', 'whisper-1', null, 'a.wav', '\r\n--not-a-boundary\r\nla'])
  })

  test('§28: of several models the first that a node has speaks, and no node is sent the list', async () => {
    let sent: unknown = null
    node.answer = async (request) => {
      sent = await request.json()
      return new Response('sound', { headers: { 'content-type': 'audio/mpeg' } })
    }
    const asked = { model: 'nowhere', input: 'hi', voice: 'alloy', ...{ models: ['tts-1'] } }
    expect(await (await client.audio.speech.create(asked)).text()).toBe('sound')
    expect(sent).toEqual({ model: 'tts-1', input: 'hi', voice: 'alloy' })
  })

  test('text becomes speech, byte by byte', async () => {
    const sound = crypto.getRandomValues(new Uint8Array(60_000))
    let asked: unknown
    node.answer = async (request) => {
      asked = await request.json()
      return new Response(sound, { headers: { 'content-type': 'audio/mpeg' } })
    }
    const answer = await client.audio.speech.create({ model: 'tts-1', input: 'hi', voice: 'alloy', speed: 1.5 })
    expect(answer.headers.get('content-type')).toBe('audio/mpeg')
    expect(Buffer.from(await answer.arrayBuffer()).equals(Buffer.from(sound))).toBe(true)
    expect(asked).toEqual({ model: 'tts-1', input: 'hi', voice: 'alloy', speed: 1.5 })
  })

  test.each([[{}], [{ stream_options: { a: 1 } }]])(
    '`stream` is a word of the server of sound: %p stays as it is',
    async (more) => {
      let asked: unknown
      node.answer = async (request) => {
        asked = await request.json()
        return new Response('sound', { headers: { 'content-type': 'audio/mpeg' } })
      }
      expect(await (await speak({ stream: true, ...more })).text()).toBe('sound')
      expect(asked).toEqual({ model: 'tts-1', input: 'hi', voice: 'alloy', stream: true, ...more })
    },
  )

  test('prompts become pictures, and pictures others', async () => {
    node.answer = () => Response.json({ created: 1, data: [{ b64_json: 'cA==' }] })
    const drawn = await client.images.generate({ model: 'flux.1', prompt: 'a town', n: 2 })
    expect(drawn.data).toMatchObject([{ b64_json: 'cA==' }])
    const image = await toFile(Buffer.from('p'), 'p.png', { type: 'image/png' })
    const edited = await client.images.edit({ model: 'flux.1', image, prompt: 'a town' })
    expect(edited.data).toMatchObject([{ b64_json: 'cA==' }])
  })

  test('pictures come whole: `stream` is refused, and no node hears of it', async () => {
    const before = node.calls
    const drawn = await postJson(`${gateway.url}/v1/images/generations`, customer.key, {
      model: 'flux.1',
      prompt: 'a town',
      stream: true,
    })
    const edited = await fetch(`${gateway.url}/v1/images/edits`, {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.key}`, ...formType },
      body: field('model', 'flux.1') + field('stream', 'true') + fileHead + formEnd,
    })
    for (const refused of [drawn, edited])
      expect([refused.status, await refused.json()]).toMatchObject([
        400,
        { error: { code: 'invalid_request', param: 'stream' } },
      ])
    expect(node.calls).toBe(before)
  })

  test('errors are of its own classes', async () => {
    node.answer = () => Response.json({ error: { message: 'voice: there is no such voice' } }, { status: 400 })
    const failure = await client.audio.speech
      .create({ model: 'tts-1', input: 'x', voice: 'x' })
      .catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(OpenAI.BadRequestError)
    expect((failure as Error).message).toContain('there is no such voice')
    const stranger = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'nonsense', maxRetries: 0 })
    const refused = stranger.images.generate({ model: 'flux.1', prompt: 'x' }).catch((error: unknown) => error)
    expect(await refused).toBeInstanceOf(OpenAI.AuthenticationError)
  })
})

describe('§28: forms are passed through', () => {
  test('a node reads the beginning of a file before its client has sent the end', async () => {
    const began = Promise.withResolvers<void>()
    node.answer = async (request) => {
      let size = 0
      for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
        size += chunk.length
        if (size > MiB) began.resolve()
      }
      return Response.json({ text: String(size) })
    }
    const { readable, write, close } = slowBody()
    const asked = transcribe(readable)
    await write(field('model', 'whisper-1') + fileHead)
    await write(new Uint8Array(2 * MiB))
    await began.promise
    await write(formEnd)
    await close()
    const { text } = (await (await asked).json()) as { text: string }
    expect(Number(text)).toBe(Buffer.byteLength(field('model', 'whisper-1') + fileHead + formEnd) + 2 * MiB)
  })

  test('the name of the model may come last', async () => {
    node.answer = async (request) => {
      const form = await request.formData()
      return Response.json({ text: `${form.get('model')} ${(form.get('file') as unknown as File).size}` })
    }
    const body = Buffer.concat([
      Buffer.from(fileHead),
      new Uint8Array(3 * MiB),
      Buffer.from(`\r\n${field('model', 'whisper-1')}--${boundary}--\r\n`),
    ])
    expect(await (await transcribe(body)).json()).toEqual({ text: `whisper-1 ${3 * MiB}` })
  })

  test('a model goes by the name that its node gives it', async () => {
    await gateway
      .admin('POST', '/v1/admin/models/aliases', { model_id: 'ear', aliases: ['whisper-1'] })
      .catch(() => null)
    node.answer = async (request) => Response.json({ text: String((await request.formData()).get('model')) })
    const response = await transcribe(field('model', 'whisper-1') + fileHead + formEnd)
    expect(await response.json()).toEqual({ text: 'whisper-1' })
  })

  test('25 MiB and no more, told or not', async () => {
    const before = node.calls
    const large = new Uint8Array(25 * MiB + 1)
    expect(await codeOf(await transcribe(large))).toEqual([413, 'payload_too_large'])
    expect(node.calls).toBe(before)
    const cut = Promise.withResolvers<void>()
    node.answer = async (request) => {
      await request.arrayBuffer().then(
        () => {},
        () => cut.resolve(),
      )
      return Response.json({ text: 'too much' })
    }
    const { readable, write } = slowBody()
    const asked = transcribe(readable)
    const send = async () => {
      await write(field('model', 'whisper-1') + fileHead)
      for (let sent = 0; sent < 26; sent++) await write(new Uint8Array(MiB))
    }
    send().catch(() => {})
    expect(await codeOf(await asked)).toEqual([413, 'payload_too_large'])
    await cut.promise
    await idle()
  })

  test('a client that leaves in the middle of its form stops the node', async () => {
    const gone = Promise.withResolvers<void>()
    const began = Promise.withResolvers<void>()
    node.answer = async (request) => {
      try {
        for await (const _ of request.body as unknown as AsyncIterable<Uint8Array>) began.resolve()
      } catch {
        gone.resolve()
      }
      return Response.json({ text: '' })
    }
    const leaving = new AbortController()
    const { readable, write } = slowBody()
    const asked = transcribe(readable, { signal: leaving.signal }).catch(() => null)
    await write(field('model', 'whisper-1') + fileHead)
    await write(new Uint8Array(MiB))
    await began.promise
    leaving.abort()
    await gone.promise
    await asked
    await idle()
  })

  test.each([
    ['no model', fileHead + formEnd, 'invalid_request', 'model'],
    ['a model that nobody has', field('model', 'nothing') + fileHead + formEnd, 'model_not_found', 'model'],
    ['a model that chats', field('model', 'flux.1') + fileHead + formEnd, 'modality_not_supported', 'model'],
    [
      'a node',
      field('model', 'whisper-1') + field('node_id', 'n') + fileHead + formEnd,
      'direct_node_targeting_not_allowed',
      'node_id',
    ],
    ['an end that does not come', field('model', 'whisper-1') + fileHead, 'invalid_request', null],
  ])('a form with %s is refused before a node hears of it', async (_, body, code, param) => {
    const before = node.calls
    const told = (await (await transcribe(body)).json()) as { error: object }
    expect(told.error).toMatchObject({ code, param })
    expect(node.calls).toBe(before)
  })

  test('of an account that is suspended nothing is read', async () => {
    const { key, customerId } = await gateway.customer()
    await gateway.admin('PATCH', `/v1/admin/customers/${customerId}`, { account_status: 'suspended' })
    // Without the name of a model: who read it would say that first.
    expect(await codeOf(await transcribe(fileHead + formEnd, { key }))).toEqual([403, 'account_suspended'])
  })

  test('what is no form is told so', async () => {
    const response = await fetch(`${gateway.url}/v1/images/edits`, {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
      body: '{}',
    })
    expect(await codeOf(response)).toEqual([415, 'unsupported_media_type'])
  })
})

describe('§28: answers are passed through', () => {
  test('a client hears the beginning before the node has said the end', async () => {
    const rest = Promise.withResolvers<void>()
    node.answer = () =>
      new Response(
        new ReadableStream({
          async start(out) {
            out.enqueue(Buffer.from('first'))
            await rest.promise
            out.enqueue(Buffer.from('last'))
            out.close()
          },
        }),
        { headers: { 'content-type': 'audio/ogg' } },
      )
    const response = await speak()
    const reader = response.body?.getReader()
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('first')
    rest.resolve()
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe('last')
    expect((await reader?.read())?.done).toBe(true)
  })

  test('a client that leaves in the middle stops the node', async () => {
    const gone = Promise.withResolvers<void>()
    node.answer = () =>
      new Response(
        new ReadableStream({
          start: (out) => out.enqueue(Buffer.from('first')),
          cancel: () => gone.resolve(),
        }),
        { headers: { 'content-type': 'audio/ogg' } },
      )
    const reader = (await speak()).body?.getReader()
    await reader?.read()
    await reader?.cancel()
    await gone.promise
    await idle()
  })

  test('a node that stops in the middle cuts its client off: nobody takes a part for the whole', async () => {
    const stopping = startMediaNode(['tts-2'])
    await gateway.node(stopping.url, { customerId: customer.customerId })
    stopping.answer = () =>
      new Response(new ReadableStream({ start: (out) => out.enqueue(Buffer.from('first')) }), {
        headers: { 'content-type': 'audio/ogg' },
      })
    const response = await speak({ model: 'tts-2' })
    const reader = response.body?.getReader()
    await reader?.read()
    await stopping.stop()
    expect(await reader?.read().catch((error: unknown) => error)).toBeInstanceOf(Error)
    await idle()
  })

  test('64 MiB and no more', async () => {
    let sent = 0
    const piece = new Uint8Array(MiB)
    node.answer = () =>
      new Response(
        new ReadableStream({
          pull: (out) => {
            out.enqueue(piece)
            if (++sent === 80) out.close()
          },
        }),
        { headers: { 'content-type': 'audio/wav' } },
      )
    const response = await speak()
    expect(response.status).toBe(200)
    let read = 0
    const readAll = async () => {
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) read += chunk.length
    }
    expect(
      await readAll().then(
        () => null,
        (error: unknown) => error,
      ),
    ).toBeInstanceOf(Error)
    expect(read).toBeLessThanOrEqual(64 * MiB)
    // Other answers may have 16 MiB. What a slow reader has not taken when the answer breaks off is lost.
    expect(read).toBeGreaterThan(16 * MiB)
    await idle()
  })

  test.each([
    ['a page', new Response('<script>', { headers: { 'content-type': 'text/html' } })],
    ['a picture that can be a page', new Response('<svg/>', { headers: { 'content-type': 'image/svg+xml' } })],
    ['an error', Response.json({ error: { message: 'out of memory' } })],
    ['nothing', new Response('', { headers: { 'content-type': 'audio/wav' } })],
  ])('%s under a 200 is the node’s failure', async (_, response) => {
    node.answer = () => response
    expect(await codeOf(await speak())).toEqual([502, 'upstream_error'])
  })

  test('usage that the node does not tell is estimated, and a receipt of its kind is left', async () => {
    node.answer = () => new Response('sound', { headers: { 'content-type': 'audio/wav' } })
    const response = await speak({ input: 'x'.repeat(100) })
    await response.arrayBuffer()
    const id = response.headers.get('x-request-id')
    const rows = () =>
      gateway.database.sql`select kind, prompt_tokens, completion_tokens from receipts where request_id = ${id}`
    await waitFor('the receipt', async () => (await rows()).length === 1)
    expect([...(await rows())]).toEqual([{ kind: 'hosted_audio', prompt_tokens: 30, completion_tokens: 0 }])
  })
})

describe('§28: where sound and pictures go', () => {
  test('a node hears the name that it gives the model', async () => {
    await gateway.admin('PUT', '/v1/admin/models', { id: 'an-ear', aliases: ['whisper-1'] })
    await waitFor('the alias', async () => {
      node.answer = async (request) => Response.json({ text: String((await request.formData()).get('model')) })
      const response = await transcribe(field('model', 'an-ear') + fileHead + formEnd)
      return response.status === 200 && ((await response.json()) as { text: string }).text === 'whisper-1'
    })
  })

  test('never to another one’s node, whatever the policies say', async () => {
    const other = await gateway.customer({
      policy: { min_privacy_class: 'public' },
      keyPolicy: { min_privacy_class: 'public' },
    })
    const open = startMediaNode(['whisper-9'])
    await gateway.node(open.url, { customerId: customer.customerId, visibility: 'public', privacyClass: 'public' })
    open.answer = () => Response.json({ text: 'x' })
    const body = field('model', 'whisper-9') + fileHead + formEnd
    expect((await transcribe(body)).status).toBe(200)
    expect(await codeOf(await transcribe(body, { key: other.key }))).toEqual([503, 'no_route_available'])
    expect(open.calls).toBe(1)
    await open.stop()
  })

  test('a short form is tried elsewhere; one of which a part has gone is not, since nobody has kept it', async () => {
    await gateway.node(second.url, { customerId: customer.customerId })
    const fails: Answer = async (request) => {
      await request.arrayBuffer()
      return new Response(null, { status: 500 })
    }
    const serves: Answer = async (request) => Response.json({ text: String((await request.formData()).get('model')) })
    // Whichever is asked first fails.
    const firstFails = () => {
      const before = node.calls + second.calls
      const either: Answer = (request) => (node.calls + second.calls === before + 1 ? fails(request) : serves(request))
      node.answer = either
      second.answer = either
      return before
    }
    let before = firstFails()
    const short = await transcribe(field('model', 'whisper-1') + fileHead + formEnd)
    expect([short.status, node.calls + second.calls]).toEqual([200, before + 2])
    before = firstFails()
    const long = Buffer.concat([
      Buffer.from(field('model', 'whisper-1') + fileHead),
      new Uint8Array(MiB),
      Buffer.from(formEnd),
    ])
    const response = await transcribe(long)
    expect([response.status, node.calls + second.calls]).toEqual([502, before + 1])
    await idle()
  })

  test('a node that is full says so to the client of a long form, and no other node is counted as tried', async () => {
    const full: Answer = async (request) => {
      await request.arrayBuffer()
      return new Response(null, { status: 429, headers: { 'retry-after': '7' } })
    }
    node.answer = full
    second.answer = full
    const before = node.calls + second.calls
    const long = Buffer.concat([
      Buffer.from(field('model', 'whisper-1') + fileHead),
      new Uint8Array(MiB),
      Buffer.from(formEnd),
    ])
    const response = await transcribe(long)
    expect([response.headers.get('retry-after'), ...(await codeOf(response))]).toEqual(['7', 429, 'capacity_exhausted'])
    expect(node.calls + second.calls).toBe(before + 1)
    const id = response.headers.get('x-request-id')
    const record = () => gateway.database.sql`select tries from request_records where request_id = ${id}`
    await waitFor('the record', async () => (await record()).length === 1)
    expect([...(await record())]).toEqual([{ tries: 1 }])
  })
})
