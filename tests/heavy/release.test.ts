import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { version } from '../../package.json'
import { sha256Hex } from '../../src/secrets.ts'
import { postJson } from '../support/clients/post-json.ts'
import { freePort } from '../support/gateways/free-port.ts'
import { firstMatch } from '../support/gateways/gateway-process.ts'

/** `npm run release`: twice the same bytes, and each file of it started where this computer can. */
const root = resolve(import.meta.dir, '../..')
const releaseMs = 1_200_000
const isRoot = process.getuid?.() === 0
const chroot = Bun.which('chroot', { PATH: '/usr/sbin:/sbin:/usr/bin:/bin' }) ?? 'chroot'
let folder: string
let first: string
let sources: string
let key = ''

/** The sources as they are now, also what is not committed yet, with their packages: a release of them takes minutes. */
function copied(): string {
  const copy = join(folder, 'sources')
  ran(['git', 'clone', '--quiet', root, copy])
  const listed = ran(['git', 'ls-files', '--modified', '--others', '--exclude-standard', '-z'], root)
  for (const path of listed.split('\0').filter((name) => name !== '' && existsSync(join(root, name)))) {
    ran(['cp', '--parents', path, copy], root)
  }
  ran(['cp', '-al', join(root, 'node_modules'), copy])
  return copy
}

function released(sources: string, out: string): string {
  const options = ['--key', join(folder, 'key'), '--address', 'https://example.com/r']
  return ran(['node', 'scripts/bun.mjs', 'scripts/release.ts', '--out', out, ...options], sources)
}

beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'penstock-release-')))
  first = join(folder, 'first')
  writeFileSync(join(folder, 'key'), `${'5a'.repeat(32)}\n`)
  sources = copied()
  key = /SVC_UPDATE_KEY=(\S+)/.exec(released(sources, first))?.[1] ?? ''
}, releaseMs)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function ran(command: readonly string[], cwd = folder, env: Readonly<Record<string, string>> = {}): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync([...command], { cwd, env: { ...process.env, ...env } })
  if (exitCode !== 0) throw new Error(`${command.join(' ')}: ${exitCode}\n${stderr.toString()}${stdout.toString()}`)
  return stdout.toString()
}

test('§39: the sums and the signature are those of the files, and the formula names them', () => {
  expect(ran(['sha256sum', '--strict', '-c', 'SHA256SUMS'], first)).not.toContain('FAILED')
  const sums = readFileSync(join(first, 'SHA256SUMS'), 'utf8')
  const named = sums
    .trim()
    .split('\n')
    .map((line) => line.split('  ')[1] ?? '')
  const others = ['SHA256SUMS', 'SHA256SUMS.note']
  expect(
    readdirSync(first)
      .filter((name) => !others.includes(name))
      .sort(),
  ).toEqual(named.toSorted())
  expect(readFileSync(join(first, 'SHA256SUMS.note'), 'utf8')).toStartWith(
    `penstock release\n${version}\n${sums}\n\u2014 penstock-release `,
  )
  const formula = readFileSync(join(first, 'penstock.rb'), 'utf8')
  const pairs = [...formula.matchAll(/url "https:\/\/example\.com\/r\/(\S+)"\n\s+sha256 "(\w+)"/g)]
  expect(pairs.map(([, name, sum]) => sums.includes(`${sum}  ${name}\n`))).toEqual([true, true, true, true])
  const bom = JSON.parse(readFileSync(join(first, `penstock-${version}.cdx.json`), 'utf8')) as {
    bomFormat: string
    components: { name: string }[]
  }
  expect([bom.bomFormat, bom.components.some(({ name }) => name === 'elysia')]).toEqual(['CycloneDX', true])
})

test(
  '§39: a release from another folder has the same bytes',
  () => {
    const copy = join(folder, 'somewhere else/penstock')
    mkdirSync(join(copy, '..'))
    ran(['cp', '-al', sources, copy])
    const second = join(folder, 'second')
    released(copy, second)
    for (const name of ['SHA256SUMS', 'SHA256SUMS.note']) {
      expect(readFileSync(join(second, name), 'utf8')).toBe(readFileSync(join(first, name), 'utf8'))
    }
  },
  releaseMs,
)

test(
  '§39: npx starts a gateway from the package, and it answers',
  async () => {
    const home = join(folder, 'home')
    mkdirSync(home)
    const port = freePort()
    const beganMs = performance.now()
    const child = Bun.spawn(['npx', '--yes', `--package=file:${join(first, `penstock-${version}.tgz`)}`, 'penstock'], {
      cwd: home,
      env: {
        PATH: process.env.PATH ?? '',
        HOME: home,
        SVC_PORT: String(port),
        SVC_DISCOVER: 'false',
        SVC_LOG_LEVEL: 'warn',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
      detached: true,
    })
    const data = join(home, '.local/share/penstock/gateway')
    try {
      await firstMatch(child.stdout, /OpenAI base/)
      const { gateway_key } = JSON.parse(readFileSync(join(data, 'credentials.json'), 'utf8')) as {
        gateway_key: string
      }
      const response = await postJson(`http://127.0.0.1:${port}/v1/chat/completions`, gateway_key, {
        model: 'demo/wordplay',
        stream: true,
        messages: [{ role: 'user', content: 'Hello!' }],
      })
      const [, chunk = ''] = await firstMatch(response.body ?? new ReadableStream(), /"content":("[^"]+")/)
      console.log(`npx to the first token: ${((performance.now() - beganMs) / 1_000).toFixed(0)} s, ${chunk}`)
      // The agent that it serves is that of the checkout, and it passes its own Bun on.
      const agent = await fetch(`http://127.0.0.1:${port}/v1/node-agent/agent.mjs`)
      expect([agent.status, (await agent.bytes()).length > 0]).toEqual([200, true])
    } finally {
      // As Ctrl-C does: to npx and all that it has started.
      process.kill(-child.pid, 'SIGINT')
      await child.exited
      const database = join(data, 'postgres')
      if (existsSync(database)) rmSync(realpathSync(database), { recursive: true, force: true })
    }
  },
  releaseMs,
)

test.skipIf(process.platform !== 'linux' || process.arch !== 'x64')(
  '§39: the executable runs, and checks for a newer release',
  async () => {
    const program = join(first, 'penstock-linux-x64')
    expect(ran([program, '--version']).trim()).toBe(version)
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: (request) => new Response(Bun.file(join(first, new URL(request.url).pathname))),
    })
    const child = Bun.spawn([program, 'update', '--check', '--json'], {
      env: { HOME: folder, SVC_UPDATE_URL: server.url.origin, SVC_UPDATE_KEY: key },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const told = JSON.parse(await new Response(child.stdout).text()) as { download: { sha256: string } }
    await server.stop(true)
    expect(told).toMatchObject({
      newest: version,
      newer: false,
      download: { sha256: sha256Hex(readFileSync(program)) },
    })
  },
)

test.skipIf(Bun.which('dpkg') === null || !isRoot)(
  '§39: dpkg installs gateway and agent, knows their files, and removes them',
  () => {
    const scratch = join(folder, 'debian')
    const state = join(scratch, 'var/lib/dpkg')
    for (const path of ['info', 'updates', 'triggers']) mkdirSync(join(state, path), { recursive: true })
    writeFileSync(join(state, 'status'), '')
    const arch = ran(['dpkg', '--print-architecture']).trim()
    const dpkg = (...words: readonly string[]) =>
      ran(['dpkg', `--root=${scratch}`, '--force-script-chrootless', '--force-depends', ...words])
    dpkg('-i', join(first, `penstock_${version}_${arch}.deb`), join(first, `penstock-node_${version}_all.deb`))
    expect(dpkg('--verify')).toBe('')
    expect(dpkg('-L', 'penstock').split('\n')).toEqual(
      expect.arrayContaining(['/usr/bin/penstock', '/usr/lib/systemd/system/penstock.service']),
    )
    expect(ran([join(scratch, 'usr/bin/penstock'), '--version']).trim()).toBe(version)
    if (Bun.which('systemd-analyze') !== null) {
      for (const unit of ['penstock', 'penstock-node']) {
        const text = readFileSync(join(scratch, `usr/lib/systemd/system/${unit}.service`), 'utf8')
        const file = join(folder, `${unit}.service`)
        writeFileSync(file, text.replaceAll('/usr/bin/penstock', join(scratch, 'usr/bin/penstock')))
        ran(['systemd-analyze', 'verify', '--recursive-errors=no', file])
      }
    }
    dpkg('-r', 'penstock-node', 'penstock')
    expect(existsSync(join(scratch, 'usr/bin/penstock'))).toBe(false)
  },
)

test.skipIf(process.platform !== 'linux' || !isRoot)('§39: what is in the image is enough for the program', () => {
  const image = join(folder, 'image')
  mkdirSync(image)
  ran(['tar', '-xf', join(first, `penstock-${version}-oci.tar`), '-C', image])
  const blob = <T>(digest: string) =>
    JSON.parse(readFileSync(join(image, 'blobs', digest.replace(':', '/')), 'utf8')) as T
  const {
    manifests: [top],
  } = JSON.parse(readFileSync(join(image, 'index.json'), 'utf8')) as { manifests: [{ digest: string }] }
  const { manifests } = blob<{ manifests: { digest: string; platform: { architecture: string } }[] }>(top.digest)
  expect(manifests.map(({ platform }) => platform.architecture)).toEqual(['amd64', 'arm64'])
  const here = manifests.find(({ platform }) => platform.architecture === (process.arch === 'x64' ? 'amd64' : 'arm64'))
  const { layers, config } = blob<{ layers: { digest: string }[]; config: { digest: string } }>(here?.digest ?? '')
  const { rootfs } = blob<{ rootfs: { diff_ids: string[] } }>(config.digest)
  const tree = join(folder, 'tree')
  mkdirSync(tree)
  for (const [at, { digest }] of layers.entries()) {
    const file = join(image, 'blobs', digest.replace(':', '/'))
    expect(`sha256:${sha256Hex(Bun.gunzipSync(readFileSync(file)))}`).toBe(rootfs.diff_ids[at] ?? '')
    ran(['tar', '-xzf', file, '-C', tree])
  }
  // As in a container: with the kernel's own files, which last as long as the namespace of mounts.
  const script = `mount --rbind /proc proc && mount --rbind /dev dev && exec ${chroot} --userspec=65532:65532 . /usr/local/bin/penstock "$@"`
  for (const path of ['proc', 'dev']) mkdirSync(join(tree, path))
  const inside = (...words: readonly string[]) =>
    Bun.spawnSync(['unshare', '--mount', 'sh', '-c', script, 'sh', ...words], {
      cwd: tree,
      env: { PATH: process.env.PATH ?? '', SVC_DATA_DIR: '/data', HOME: '/data' },
    })
  expect(inside('--version').stdout.toString().trim()).toBe(version)
  expect(inside('serve').stderr.toString()).toContain('Set DATABASE_URL=')
})
