import { createHash } from 'node:crypto'
import { version } from '../../package.json'
import { noteKeyText, noteText } from '../../src/protocol/log/note.ts'
import { logSigner } from '../../src/protocol/log/note-signing.ts'
import { releaseText } from '../../src/protocol/release/release-list.ts'
import { signingKey } from '../../src/protocol/signing/ed25519.ts'
import { root } from './built-files.ts'
import { executableName, type Target } from './runtimes.ts'

/** What goes with the artefacts: sums, a signature, what is inside, a formula. */

/** Artefacts by name. */
export type Artefacts = ReadonlyMap<string, Uint8Array>

const sumOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

/** As `sha256sum -c` reads it. */
export const sumsText = (artefacts: Artefacts): string =>
  [...artefacts].map(([name, bytes]) => `${sumOf(bytes)}  ${name}\n`).join('')

/** The name under which a release is signed. */
const signerName = 'penstock-release'

/** `seed`: 32 bytes. The signed list that `penstock update --check` reads, and the key by which it is checked. */
export function signedList(artefacts: Artefacts, seed: Uint8Array): { readonly note: string; readonly key: string } {
  const signer = logSigner(signerName, signingKey(seed))
  const text = releaseText(version, sumsText(artefacts))
  return { note: noteText({ text, signatures: [signer.sign(text)] }), key: noteKeyText(signer.key) }
}

interface Bom {
  serialNumber?: string
  metadata: { timestamp?: string; tools?: unknown; component: { name: string } }
}

/** npm's list of all packages inside (CycloneDX), without the time and the number that npm gives each list. */
export function billOfMaterials(name: string): string {
  const command = ['npm', 'sbom', '--sbom-format=cyclonedx', '--omit=dev', '--package-lock-only']
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { cwd: root })
  if (exitCode !== 0) throw new Error(`npm sbom failed: ${stderr.toString().slice(0, 2_000)}`)
  const bom = JSON.parse(stdout.toString()) as Bom
  delete bom.serialNumber
  delete bom.metadata.timestamp
  delete bom.metadata.tools
  // npm takes the folder's name.
  bom.metadata.component.name = name
  return `${JSON.stringify(bom, null, 2)}\n`
}

/** Homebrew's formula. `address`: where the artefacts will be. */
export function formula(artefacts: Artefacts, targets: readonly Target[], address: string): string {
  const source = (name: string) => {
    const target = targets.find((one) => one.name === name)
    const file = target === undefined ? '' : executableName(target)
    return [`url "${address}/${file}"`, `sha256 "${sumOf(artefacts.get(file) ?? new Uint8Array())}"`]
  }
  const on = (system: string, processors: readonly (readonly [string, string])[]) => [
    `  on_${system} do`,
    ...processors.flatMap(([processor, name]) => [
      `    on_${processor} do`,
      ...source(name).map((line) => `      ${line}`),
      '    end',
    ]),
    '  end',
  ]
  return `${[
    'class Penstock < Formula',
    '  desc "Gateway for model servers with one OpenAI-compatible address"',
    `  homepage "${address}"`,
    `  version "${version}"`,
    '  license "Apache-2.0"',
    '',
    ...on('macos', [
      ['arm', 'macos-arm64'],
      ['intel', 'macos-x64'],
    ]),
    ...on('linux', [
      ['arm', 'linux-arm64'],
      ['intel', 'linux-x64'],
    ]),
    '',
    '  def install',
    '    bin.install Dir["penstock-*"].first => "penstock"',
    '  end',
    '',
    '  test do',
    '    assert_match version.to_s, shell_output("#{bin}/penstock --version")',
    '  end',
    'end',
  ].join('\n')}\n`
}
