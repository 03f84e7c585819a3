import { constants } from 'node:fs'
import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'

/** Linux's configfs-tsm (`Documentation/ABI/testing/configfs-tsm-report`), alike for Intel TDX and AMD SEV-SNP. */

/** The kernel's own limit was 32 KiB when this was written. */
const blobBytesMax = 128 * 1024
const wordBytesMax = 64

export interface TsmReport {
  readonly provider: string
  /** `outblob`. */
  readonly report: Uint8Array
  /** `auxblob`; null: the host gives no certificates. */
  readonly certificates: Uint8Array | null
}

/** Why the kernel gave no report. The text names no content. */
class TsmError extends Error {
  override readonly name = 'TsmError'
}

const codeOf = (error: unknown) => String((error as { code?: unknown }).code)

/** To its end, which the size of such a file does not tell. Throws `TsmError` for more bytes than these. */
async function readAll(file: string, bytesMax: number): Promise<Uint8Array> {
  const handle = await open(file, constants.O_RDONLY)
  try {
    const bytes = new Uint8Array(bytesMax + 1)
    let size = 0
    while (size < bytes.length) {
      const { bytesRead } = await handle.read(bytes, size, bytes.length - size, null)
      if (bytesRead === 0) return bytes.slice(0, size)
      size += bytesRead
    }
    throw new TsmError(`${file} has more than ${bytesMax} bytes`)
  } finally {
    await handle.close()
  }
}

const readWord = async (file: string) => new TextDecoder().decode(await readAll(file, wordBytesMax)).trim()

/** The certificates are the host's to give: without them the attribute is missing, empty or cannot be read. */
async function readCertificates(file: string): Promise<Uint8Array | null> {
  try {
    const bytes = await readAll(file, blobBytesMax)
    return bytes.length === 0 ? null : bytes
  } catch (error) {
    if (error instanceof TsmError) throw error
    return null
  }
}

/**
 * Has the hardware sign 64 bytes. `name` is the entry of this agent alone below `folder`; it stays there until the machine ends, and one
 * that an agent has left behind is used again. Rejects with `TsmError` and what the file system says.
 */
export async function tsmReport(folder: string, name: string, data: Uint8Array): Promise<TsmReport> {
  const entry = join(folder, name)
  await mkdir(entry, { mode: 0o700 }).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw error
  })
  const generation = join(entry, 'generation')
  const before = Number(await readWord(generation))
  const inblob = await open(join(entry, 'inblob'), constants.O_WRONLY)
  try {
    // The kernel takes the bytes of one write, when the file is closed.
    await inblob.write(data)
  } finally {
    await inblob.close()
  }
  const report = await readAll(join(entry, 'outblob'), blobBytesMax)
  const certificates = await readCertificates(join(entry, 'auxblob'))
  const provider = await readWord(join(entry, 'provider'))
  // Each write counts. Another program that writes into the same entry would get its own bytes signed.
  if (Number(await readWord(generation)) !== before + 1) throw new TsmError(`${entry} was written by another program`)
  return { provider, report, certificates }
}
