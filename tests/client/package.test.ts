import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { jobCustomer, jobNode } from '../support/pools/job-pool.ts'
import { fixture } from '../support/run/fixture.ts'

const root = resolve(import.meta.dir, '../..')
const page = readFileSync(join(root, 'docs/private-jobs.md'), 'utf8')
/** The one block of code between the marks of that name. */
const documented = (name: string) =>
  new RegExp(`<!-- ${name}:begin -->\n\`\`\`\\w+\n([\\s\\S]*?)\`\`\`\n<!-- ${name}:end -->`).exec(page)?.[1] ?? ''

const gateway = await fixture(startTestGateway({ SVC_POLL_INTERVAL_MS: '100' }))
const customer = await jobCustomer(gateway)
const node = await fixture(jobNode(gateway, customer))
const folder = mkdtempSync(join(tmpdir(), 'penstock-package-'))
const env: Record<string, string> = {
  PATH: process.env.PATH ?? '',
  SVC_BASE_URL: gateway.url,
  CUSTOMER_ID: customer.customerId,
  CUSTOMER_TOKEN: customer.customerToken,
  NODE_ID: node.nodeId,
  FINGERPRINT: node.fingerprint,
  MODEL: node.model,
}

afterAll(() => rmSync(folder, { recursive: true }))

async function run(command: readonly string[], cwd: string): Promise<readonly [string, number]> {
  const child = Bun.spawn([...command], { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] })
  return [await new Response(child.stdout).text(), await child.exited]
}

test('docs/private-jobs.md: the example runs in another project that has the package', async () => {
  mkdirSync(join(folder, 'node_modules/@penstock'), { recursive: true })
  symlinkSync(root, join(folder, 'node_modules/@penstock/penstock'))
  await Bun.write(join(folder, 'example.mjs'), documented('client'))
  expect(await run([process.execPath, 'example.mjs'], folder)).toEqual(['the secret answer\n', 0])
})

test('docs/private-jobs.md: the documented line makes one file, with which the example runs under Node', async () => {
  const [, from = '', to = ''] =
    /^npx bun build (\S+) --target browser --outfile (\S+)\n$/.exec(documented('client-bundle')) ?? []
  const built = [process.execPath, 'build', from, '--target', 'browser', '--outfile', join(folder, to)]
  expect((await run(built, root))[1]).toBe(0)
  const alone = mkdtempSync(join(tmpdir(), 'penstock-bundle-'))
  await Bun.write(join(alone, to), Bun.file(join(folder, to)))
  await Bun.write(join(alone, 'example.mjs'), documented('client').replace('@penstock/penstock/client', `./${to}`))
  expect(await run(['node', 'example.mjs'], alone)).toEqual(['the secret answer\n', 0])
  rmSync(alone, { recursive: true })
})

test('what the client throws can be told apart by those who import it', async () => {
  const client = await import('@penstock/penstock/client')
  expect(Object.keys(client).sort()).toEqual([
    'EnvelopeError',
    'GatewayAnswerError',
    'GatewayError',
    'NodeKeyError',
    'SealedError',
    'createPrivateJobs',
    'identityFingerprint',
    'sealedFetch',
  ])
})
