import { afterAll, afterEach, expect, test } from 'bun:test'
import { version } from '../../package.json'
import { noteKeyText, noteText } from '../../src/protocol/log/note.ts'
import { logSigner } from '../../src/protocol/log/note-signing.ts'
import { compareVersions, readRelease, releaseText } from '../../src/protocol/release/release-list.ts'
import { signingKey } from '../../src/protocol/signing/ed25519.ts'
import { commandLine } from './command-line.ts'

const cli = commandLine()
let answer: () => Response | Promise<Response> = () => new Response('none', { status: 404 })
const asked: string[] = []
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: (request) => {
    asked.push(new URL(request.url).pathname)
    return answer()
  },
})
afterAll(async () => {
  cli.close()
  await server.stop(true)
})
afterEach(() => asked.splice(0))

const signer = logSigner('penstock-release', signingKey(new Uint8Array(32).fill(7)))
const stranger = logSigner('penstock-release', signingKey(new Uint8Array(32).fill(8)))
const url = `${server.url.origin}/releases`
const env = { SVC_UPDATE_URL: `${url}/`, SVC_UPDATE_KEY: noteKeyText(signer.key) }
const sum = 'ab'.repeat(32)
const sums = ['linux-x64', 'linux-arm64', 'macos-arm64', 'macos-x64']
  .map((name) => `${sum}  penstock-${name}\n`)
  .join('')
const signed = (text: string, by = signer) => noteText({ text, signatures: [by.sign(text)] })
const check = (more: Readonly<Record<string, string>> = {}) =>
  cli.run(['update', '--check', '--json'], { env: { ...env, ...more } })

test('§39: update --check says what runs, what is out, and where it is with its sum', async () => {
  answer = () => new Response(signed(releaseText('99.0.0', sums)))
  const { code, out } = await check()
  expect(code).toBe(0)
  const told = JSON.parse(out) as { download: { url: string; sha256: string } }
  expect(told).toMatchObject({ version, newest: '99.0.0', newer: true, download: { sha256: sum } })
  expect(told.download.url).toStartWith(`${url}/penstock-`)
  const text = await cli.run(['update', '--check'], { env })
  expect(text.out).toMatch(/Newest +99\.0\.0\n.*Download/s)
  expect(asked).toEqual(['/releases/SHA256SUMS.note', '/releases/SHA256SUMS.note'])
  answer = () => new Response(signed(releaseText(version, sums)))
  expect(JSON.parse((await check()).out)).toMatchObject({ newest: version, newer: false })
})

test('§39: nobody is asked who was not named, and nothing without --check', async () => {
  for (const [args, more] of [
    [['update'], env],
    [['update', '--check'], {}],
    [['update', '--check', '--from', url], {}],
    [['update', '--check', '--from', 'ftp://example.com'], env],
    [['update', '--check', '--key', 'a+b+c'], env],
  ] as const) {
    const { code, err } = await cli.run([...args], { env: more })
    expect([code, err !== '']).toEqual([2, true])
  }
  expect(asked).toEqual([])
})

test('§39: what is not signed by the key, cut, too large or no list is refused in words', async () => {
  const says = async (response: () => Response | Promise<Response>, words: string) => {
    answer = response
    const { code, out, err } = await check()
    expect([code, out, err]).toEqual([1, '', expect.stringContaining(words)])
  }
  const list = releaseText('99.0.0', sums)
  await says(() => new Response(signed(list, stranger)), 'is not signed by penstock-release')
  await says(() => new Response(signed(list).replace('99.0.0', '99.0.1')), 'is not signed by penstock-release')
  await says(() => new Response(list), 'is no signed list')
  await says(() => new Response(signed('something else\n')), 'is no list of a release')
  await says(() => new Response('x'.repeat(70_000)), 'more than 64 KiB')
  await says(() => new Response('no', { status: 503 }), 'the server answered 503')
  await says(() => Response.redirect('http://127.0.0.1:1/'), 'could not be read')
  const { code, err } = await check({ SVC_UPDATE_URL: 'http://127.0.0.1:1' })
  expect([code, err]).toEqual([1, expect.stringContaining('could not be read')])
})

test('§39: Ctrl-C ends the question', async () => {
  const { promise: came, resolve } = Promise.withResolvers<void>()
  answer = () => {
    resolve()
    return new Promise(() => {})
  }
  const child = cli.start(['update', '--check', '--from', url, '--key', env.SVC_UPDATE_KEY])
  await came
  child.kill('SIGINT')
  expect(await new Response(child.stderr).text()).toContain('it was interrupted')
  expect(await child.exited).toBe(1)
})

test('§39: a list is read as it was written, and nothing else is', () => {
  expect(readRelease(releaseText('1.2.3-rc.1', sums))?.files.get('penstock-linux-x64')).toBe(sum)
  for (const text of [
    '',
    `penstock release\n1.2\n${sums}`,
    `penstock release\n1.2.3\n${sums}${sums}`,
    `penstock release\n1.2.3\n${sum}  ../x\n`,
    `penstock release\n1.2.3\n${sum}  x`,
    releaseText('1.2.3', Array.from({ length: 101 }, (_, at) => `${sum}  f${at}\n`).join('')),
  ]) {
    expect(readRelease(text)).toBeNull()
  }
})

test('Semantic Versioning 2.0.0 §11: versions come in its order', () => {
  const order = [
    '0.9.9',
    '0.10.0',
    '1.0.0-alpha',
    '1.0.0-alpha.1',
    '1.0.0-alpha.beta',
    '1.0.0-beta',
    '1.0.0-beta.2',
    '1.0.0-beta.11',
    '1.0.0-rc.1',
    '1.0.0',
    '1.0.1',
  ]
  for (const [at, one] of order.entries()) {
    for (const [other, text] of order.entries())
      expect([one, text, compareVersions(one, text)]).toEqual([one, text, Math.sign(at - other)])
  }
  expect(() => compareVersions('1', '1.0.0')).toThrow(RangeError)
})
