// Node's own HTTP client, for comparison: each line of the standard input is a JSON array of base64 pieces that a server
// sends, each line of the output says what the client made of them. Runs under Node: Bun's `node:http` is another one.
import http from 'node:http'
import { createInterface } from 'node:readline'
import { Duplex } from 'node:stream'

/** A server's end that waits for the request, says its pieces and is gone. */
function connectionTo(pieces) {
  let begun = false
  const say = (at) => {
    if (connection.destroyed) return
    if (at === pieces.length) return connection.push(null)
    connection.push(Buffer.from(pieces[at], 'base64'))
    setImmediate(say, at + 1)
  }
  const connection = new Duplex({
    read() {},
    write(_bytes, _encoding, done) {
      done()
      if (!begun) setImmediate(say, 0)
      begun = true
    },
  })
  connection.setTimeout = () => connection
  connection.setKeepAlive = () => connection
  connection.setNoDelay = () => connection
  connection.ref = () => connection
  connection.unref = () => connection
  return connection
}

/** `answer` only for what came whole. */
function ask(pieces) {
  return new Promise((resolve) => {
    const request = http.request({ method: 'POST', path: '/', createConnection: () => connectionTo(pieces) })
    request.on('error', ({ code }) => resolve({ outcome: 'refused', code }))
    request.on('upgrade', (_response, socket) => {
      socket.destroy()
      resolve({ outcome: 'refused', code: 'upgrade' })
    })
    request.on('response', (response) => {
      const body = []
      response.on('data', (bytes) => body.push(bytes))
      response.on('error', ({ code }) => resolve({ outcome: 'refused', code }))
      response.on('end', () => {
        if (!response.complete) return resolve({ outcome: 'refused', code: 'cut' })
        resolve({
          outcome: 'answer',
          status: response.statusCode,
          body: Buffer.concat(body).toString('base64'),
        })
      })
    })
    request.end('{}')
  })
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await ask(JSON.parse(line)))}\n`)
}
