import { afterAll, expect, test } from 'bun:test'
import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../package.json'
import { waitFor } from '../support/gateways/gateway.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'
import { npmTest } from '../support/run/npm-test.ts'
import { commandLine, root } from './command-line.ts'

const cli = commandLine()
afterAll(() => cli.close())

/** A port on which nothing listens. */
function closedPort(): number {
  const server = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: () => {} } })
  server.stop(true)
  return server.port
}

test('without a command the help goes to standard error and the exit code is 2', async () => {
  const [none, help] = await Promise.all([cli.run([]), cli.run(['--help'])])
  expect([none.code, none.out]).toEqual([2, ''])
  expect([help.code, help.err]).toEqual([0, ''])
  expect(help.out).toBe(none.err)
  expect(help.out).toContain('fake-node')
})

test.each([
  [['bogus'], 'Unknown command: bogus'],
  [['nodes', 'bogus'], 'Unknown command: nodes bogus'],
  [['nodes', 'toString'], 'Unknown command: nodes toString'],
  [['nodes', 'list', '--bogus'], 'Unknown option: --bogus'],
  [['explain'], 'REQUEST_ID is missing'],
])('%p is a fault of usage', async (args, message) => {
  const { code, out, err } = await cli.run(args)
  expect([code, out]).toEqual([2, ''])
  expect(err).toContain(message)
  expect(err).toContain('--help')
})

test.each([
  [['staus'], 'Did you mean status?'],
  [['ndoes', 'list'], 'Did you mean nodes?'],
  [['nodes', 'lsit'], 'Did you mean nodes list?'],
])('%p: the nearest command is suggested', async (args, hint) => {
  const { code, err } = await cli.run(args)
  expect(code).toBe(2)
  expect(err).toContain(hint)
})

test('no command is suggested for a word that is near to none', async () => {
  for (const word of ['xyzzy', 'x', 's'.repeat(100_000)]) {
    expect((await cli.run([word])).err).not.toContain('Did you mean')
  }
})

test('help of one command, in every way to ask for it', async () => {
  const answers = await Promise.all(
    [
      ['keys', 'create', '--help'],
      ['keys', 'create', '-h'],
      ['help', 'keys', 'create'],
    ].map((args) => cli.run(args)),
  )
  for (const { code, out } of answers) {
    expect(code).toBe(0)
    expect(out).toStartWith('Usage: penstock keys create NAME [options]')
  }
})

test('--version', async () => {
  expect((await cli.run(['--version'])).out).toBe(`${version}\n`)
})

test('a gateway that is not there is told with its address, and the exit code is 1', async () => {
  const env = { SVC_BASE_URL: `http://127.0.0.1:${closedPort()}`, SVC_ADMIN_TOKEN: 't', SVC_GATEWAY_KEY: 'k' }
  for (const args of [['status'], ['nodes', 'list'], ['chat', 'm', 'hi']]) {
    const { code, out, err } = await cli.run(args, { env })
    expect([code, out.trim()]).toEqual([1, ''])
    expect(err).toContain(`${env.SVC_BASE_URL} cannot be reached: nothing listens there`)
    expect(err).not.toContain('.ts')
  }
  const { err } = await cli.run(['nodes', 'list', '--json'], { env })
  expect(JSON.parse(err).error.message).toContain('cannot be reached')
})

test('without a token the places are named where one may be', async () => {
  const { code, err } = await cli.run(['nodes', 'list'])
  expect(code).toBe(1)
  expect(err).toContain('SVC_ADMIN_TOKEN')
  expect(err).toContain(join(cli.home, '.config/penstock/credentials.json'))
})

test('a proxy of the environment is not asked for this machine itself', async () => {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => Response.json({ status: 'ready' }) })
  const env = { SVC_BASE_URL: `http://127.0.0.1:${server.port}`, HTTP_PROXY: `http://127.0.0.1:${closedPort()}` }
  const { code } = await cli.run(['status'], { env })
  await server.stop(true)
  expect(code).toBe(0)
})

test('https to a port that speaks http is named as such', async () => {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => Response.json({ status: 'ready' }) })
  const { code, err } = await cli.run(['status'], { env: { SVC_BASE_URL: `https://127.0.0.1:${server.port}` } })
  await server.stop(true)
  expect(code).toBe(1)
  expect(err).toContain('It speaks http')
})

test('a refusal that no gateway wrote is told as such', async () => {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('nothing', { status: 404 }) })
  const env = { SVC_BASE_URL: `http://127.0.0.1:${server.port}`, SVC_ADMIN_TOKEN: 't', SVC_GATEWAY_KEY: 'k' }
  for (const args of [
    ['nodes', 'list'],
    ['chat', 'm', 'hi'],
  ]) {
    expect((await cli.run(args, { env })).err).toContain('What answers there is not Penstock')
  }
  await server.stop(true)
})

test('a server that is no gateway is told as such', async () => {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('<html>') })
  const env = { SVC_BASE_URL: `http://127.0.0.1:${server.port}`, SVC_ADMIN_TOKEN: 't' }
  const { code, err } = await cli.run(['nodes', 'list'], { env })
  await server.stop(true)
  expect(code).toBe(1)
  expect(err).toContain('What answers there is not Penstock')
})

test('a redirect is not followed: it could lead the token elsewhere', async () => {
  let reached = 0
  const other = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => {
      reached++
      return Response.json({})
    },
  })
  const first = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => Response.redirect(other.url.href, 307) })
  const env = { SVC_BASE_URL: `http://127.0.0.1:${first.port}`, SVC_ADMIN_TOKEN: 't' }
  const { code } = await cli.run(['nodes', 'list'], { env })
  await Promise.all([first.stop(true), other.stop(true)])
  expect([code, reached]).toEqual([1, 0])
})

test('an empty prompt from a pipe is refused', async () => {
  const { code, err } = await cli.run(['chat', 'm'], { stdin: ' \n' })
  expect(code).toBe(2)
  expect(err).toContain('There is no prompt')
})

test('--policy that is no JSON is refused before anything is sent', async () => {
  writeFileSync(join(cli.home, 'policy.json'), '[]')
  for (const value of ['{', '[]', '@policy.json', '@absent.json']) {
    const { code, err } = await cli.run(['customers', 'create', 'x', '--policy', value])
    expect(code).toBe(2)
    expect(err).toContain('--policy')
  }
})

test('fake-node listens, serves its models, takes faults and ends with a signal', async () => {
  const child = cli.start(['fake-node', '--model', 'one', '--model', 'two', '--json'])
  const { url, models } = JSON.parse((await firstMatch(child.stdout, /^\{.*\}$/m))[0])
  expect(models).toEqual(['one', 'two'])
  const list = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] }
  expect(list.data.map(({ id }) => id)).toEqual(['one', 'two'])
  await fetch(`${url}/faults`, { method: 'POST', body: '{"kind":"status500"}' })
  const body = JSON.stringify({ model: 'one', messages: [] })
  expect((await fetch(`${url}/v1/chat/completions`, { method: 'POST', body })).status).toBe(500)
  const second = await cli.run(['fake-node', '--listen', new URL(url).host])
  expect(second.code).toBe(1)
  expect(second.err).toContain('Is the port in use?')
  child.kill('SIGINT')
  expect(await child.exited).toBe(0)
})

npmTest('the script is found through a symbolic link and from any folder', async () => {
  const link = join(cli.home, 'penstock-link')
  symlinkSync(join(root, 'penstock'), link)
  const child = Bun.spawn([link, '--version'], { cwd: '/', stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  expect(await new Response(child.stdout).text()).toBe(`${version}\n`)
  expect(await child.exited).toBe(0)
})

test('in a terminal a revocation is asked for first, and no is no', async () => {
  let asked = 0
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => {
      asked++
      return new Response(null, { status: 204 })
    },
  })
  const person = commandLine({ SVC_BASE_URL: `http://127.0.0.1:${server.port}`, SVC_ADMIN_TOKEN: 't' })
  const answers: [string, number][] = [
    ['n\r', 1],
    ['\u0003', 1],
    ['y\r', 0],
  ]
  for (const [keys, code] of answers) {
    const run = person.inTerminal(['nodes', 'remove', 'node_1'])
    await waitFor('the question', () => run.text().includes('[y/N]'))
    run.type(keys)
    expect(await run.exited).toBe(code)
    expect(asked).toBe(code === 0 ? 1 : 0)
  }
  const sure = person.inTerminal(['nodes', 'remove', 'node_1', '--yes'])
  expect(await sure.exited).toBe(0)
  expect(asked).toBe(2)
  person.close()
  await server.stop(true)
})
