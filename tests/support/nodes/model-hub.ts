import { createHash } from 'node:crypto'

/** What goes wrong with the downloads of a hub. */
export interface HubFault {
  /** Each connection ends after so many bytes. */
  readonly cutAfter?: number
  /** The next connection says nothing after so many bytes. */
  readonly stallAfter?: number
  /** It sends so many pieces of a file, one after each pause, ms. */
  readonly drips?: { readonly pieces: number; readonly pauseMs: number }
  /** One byte of each file is another one than its hash says. */
  readonly spoils?: boolean
  /** It always sends the whole file. */
  readonly knowsNoRanges?: boolean
  /** Where it sends those who want a file. */
  readonly sendsTo?: string
  readonly status?: number
  /** Files on a page of the tree, the README among them. */
  readonly pageFiles?: number
  /** Its tree goes on for ever. */
  readonly endless?: boolean
  /** In the place of the address of the next page. */
  readonly next?: string
}

/** A hub of models that speaks Hugging Face's and Ollama's published interfaces, and serves files by their path. */
export interface ModelHub {
  readonly url: string
  /** Ranges that were asked for of files, in order; '' for the whole. */
  readonly ranges: readonly string[]
  /** `Authorization` of the questions for files and lists. */
  readonly tokens: readonly (string | null)[]
  /** Where the pages of the tree that were asked for began. */
  readonly pages: readonly number[]
  fault: HubFault
  /** Resolves when a connection stalls. */
  stalled(): Promise<void>
  stop(): void
}

const commit = 'c'.repeat(40)
export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** `files`: by their path in the one repository `org/repo`, and as `/files/PATH`. The first is also Ollama's `tiny:latest`. */
export function startModelHub(files: Readonly<Record<string, Uint8Array>>): ModelHub {
  const ranges: string[] = []
  const tokens: (string | null)[] = []
  const pages: number[] = []
  let stalling = Promise.withResolvers<void>()
  const [first = new Uint8Array()] = Object.values(files)
  const spoilt = (bytes: Uint8Array) => {
    const other = Uint8Array.from(bytes)
    other[other.length - 1] = (other.at(-1) ?? 0) ^ 1
    return other
  }
  const dripping = (bytes: Uint8Array, { pieces, pauseMs }: NonNullable<HubFault['drips']>) => {
    const pieceBytes = Math.ceil(bytes.length / pieces)
    let at = 0
    return new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        await Bun.sleep(pauseMs)
        controller.enqueue(bytes.subarray(at, at + pieceBytes))
        at += pieceBytes
        if (at >= bytes.length) controller.close()
      },
    })
  }
  const body = (bytes: Uint8Array, stallAfter: number | undefined): ReadableStream<Uint8Array> =>
    new ReadableStream({
      start: (controller) => {
        if (stallAfter === undefined || stallAfter >= bytes.length) {
          controller.enqueue(bytes)
          controller.close()
          return
        }
        controller.enqueue(bytes.subarray(0, stallAfter))
        stalling.resolve()
      },
    })
  const file = (whole: Uint8Array, request: Request): Response => {
    const { fault } = hub
    const range = request.headers.get('range') ?? ''
    ranges.push(range)
    if (fault.status !== undefined) return new Response(null, { status: fault.status })
    if (fault.sendsTo !== undefined) return new Response(null, { status: 302, headers: { location: fault.sendsTo } })
    const bytes = fault.spoils === true ? spoilt(whole) : whole
    const [, from = '', to = ''] = /^bytes=(\d+)-(\d*)$/.exec(range) ?? []
    const isRange = from !== '' && fault.knowsNoRanges !== true
    const start = isRange ? Number(from) : 0
    const end = isRange && to !== '' ? Math.min(Number(to) + 1, bytes.length) : bytes.length
    const isHead = isRange && to !== ''
    // The header is read whole: what goes wrong does so with the file.
    const cut = isHead ? end : Math.min(end, start + (fault.cutAfter ?? bytes.length))
    const stallAfter = isHead ? undefined : fault.stallAfter
    if (stallAfter !== undefined) {
      const { stallAfter: _, ...left } = fault
      hub.fault = left
    }
    const sent = bytes.subarray(start, cut)
    const drips = isHead ? undefined : fault.drips
    return new Response(drips === undefined ? body(sent, stallAfter) : dripping(sent, drips), {
      status: isRange ? 206 : 200,
      headers: isRange ? { 'content-range': `bytes ${start}-${end - 1}/${bytes.length}` } : {},
    })
  }
  /** As Hugging Face pages: the next one by `Link`, with a cursor. */
  const page = (all: readonly object[], from: string): Response => {
    const { pageFiles = all.length, endless = false, next } = hub.fault
    const url = new URL(from)
    const at = Number(url.searchParams.get('cursor') ?? 0)
    pages.push(at)
    const end = at + pageFiles
    url.searchParams.set('cursor', String(end))
    const more = end < all.length || endless
    const headers = more ? { link: `<${next ?? url.href}>; rel="next"` } : {}
    return Response.json(all.slice(at, end), { headers })
  }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch: (request) => {
      const { pathname } = new URL(request.url)
      tokens.push(request.headers.get('authorization'))
      if (pathname === '/api/models/org/repo/revision/main') return Response.json({ id: 'org/repo', sha: commit })
      if (pathname === `/api/models/org/repo/tree/${commit}`) {
        const listed = Object.entries(files).map(([path, bytes]) => ({
          ...{ type: 'file', path, size: bytes.length, oid: 'a'.repeat(40) },
          lfs: { oid: sha256(bytes), size: bytes.length, pointerSize: 134 },
        }))
        return page([{ type: 'file', path: 'README.md', size: 3, oid: 'b'.repeat(40) }, ...listed], request.url)
      }
      if (pathname === '/v2/library/tiny/manifests/latest') {
        const layer = (kind: string, bytes: Uint8Array) => ({
          mediaType: `application/vnd.ollama.image.${kind}`,
          digest: `sha256:${sha256(bytes)}`,
          size: bytes.length,
        })
        return Response.json({ schemaVersion: 2, layers: [layer('model', first), layer('template', Buffer.from('x'))] })
      }
      if (pathname === `/v2/library/tiny/blobs/sha256:${sha256(first)}`) return file(first, request)
      const path = /^\/(?:org\/repo\/resolve\/c{40}|files)\/(.+)$/.exec(pathname)?.[1]
      const bytes = path === undefined ? undefined : files[decodeURIComponent(path)]
      return bytes === undefined ? new Response('{"error":"not found"}', { status: 404 }) : file(bytes, request)
    },
  })
  const hub: ModelHub = {
    url: `http://127.0.0.1:${server.port}`,
    ranges,
    tokens,
    pages,
    fault: {},
    stalled: async () => {
      await stalling.promise
      stalling = Promise.withResolvers()
    },
    stop: () => void server.stop(true),
  }
  return hub
}
