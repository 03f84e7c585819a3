import ELK from 'elkjs/lib/elk.bundled.js'

/** The layout runs in its own thread, because it takes a tenth of a second (measured) and would delay chats. */
const elk = new ELK()

self.onmessage = ({ data }: MessageEvent) => {
  elk.layout(data).then(
    (picture) => postMessage({ picture }),
    (error: unknown) => postMessage({ failure: error instanceof Error ? error.message : 'failed' }),
  )
}
