import { type AddressInfo, createServer, type Socket } from 'node:net'

/** What a request holds of its prompt, so that an answer can be told from every other. */
export const markerPattern = /marker-[0-9a-f-]{36}/

export interface EchoNode {
  readonly url: string
  /** Connections that were made to it. */
  readonly connections: number
  stop(): void
}

/** The bytes of a whole answer that repeats `marker`. */
export function echoAnswer(marker: string): string {
  const body = JSON.stringify({
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: marker }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  })
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}

/**
 * A model server on a bare socket. Polls are answered as they should be; each chat is given to `chat` with the marker
 * of its prompt and how many chats this connection has had before.
 */
export async function startEchoNode(chat: (socket: Socket, marker: string, before: number) => void): Promise<EchoNode> {
  const sockets = new Set<Socket>()
  let connections = 0
  const models = JSON.stringify({ object: 'list', data: [{ id: 'm', object: 'model' }] })
  const server = createServer((socket) => {
    connections++
    sockets.add(socket)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    let text = ''
    let before = 0
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      for (;;) {
        const end = text.indexOf('\r\n\r\n')
        if (end === -1) return
        const length = Number(/content-length: (\d+)/i.exec(text.slice(0, end))?.[1] ?? 0)
        if (text.length < end + 4 + length) return
        const request = text.slice(0, end + 4 + length)
        text = text.slice(request.length)
        if (request.startsWith('GET ')) {
          const known = request.startsWith('GET /v1/models ')
          socket.write(
            `HTTP/1.1 ${known ? '200 OK' : '404 Not Found'}\r\ncontent-type: application/json\r\ncontent-length: ${known ? models.length : 0}\r\n\r\n${known ? models : ''}`,
          )
        } else chat(socket, markerPattern.exec(request)?.[0] ?? 'none', before++)
      }
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get connections() {
      return connections
    },
    stop: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
