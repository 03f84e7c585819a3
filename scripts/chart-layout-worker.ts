import ELK from 'elkjs/lib/elk.bundled.js'

/** elkjs answers only in a thread of its own: on the main thread of Bun it takes itself for its own worker. */
const elk = new ELK()

self.onmessage = ({ data }: MessageEvent) => {
  elk.layout(data).then(
    (picture) => postMessage({ picture }),
    (error: unknown) => postMessage({ failure: error instanceof Error ? error.message : 'failed' }),
  )
}
