package org.netapprox.atp.flink;

import org.apache.flink.annotation.PublicEvolving;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSource;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.types.Either;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * The records that a source has received, and beside them the windows, which say how many records
 * there were.
 *
 * @param <T> the type of the records' elements
 */
@PublicEvolving
public final class SampledStream<T> {
    private static final OutputTag<WindowSummary> WINDOWS =
            new OutputTag<>("windows", TypeInformation.of(WindowSummary.class));

    private final DataStreamSource<Either<T, WindowSummary>> source;
    private final SingleOutputStreamOperator<T> records;

    SampledStream(
            DataStreamSource<Either<T, WindowSummary>> source,
            TypeInformation<T> type,
            String name) {
        this.source = source;
        // A source has no side output. Chained to it, this operator sees windows as whole as it.
        records = source.process(new Splitter<>(type)).name(name + ": records and windows");
    }

    /**
     * The records that arrived. A window's records come before its summary and the watermark.
     *
     * @return the elements, with the event times of their records
     */
    public DataStream<T> records() {
        return records;
    }

    /**
     * The windows that were emitted.
     *
     * @return a summary of each, with the window's last millisecond as its event time
     */
    public DataStream<WindowSummary> windows() {
        return records.getSideOutput(WINDOWS);
    }

    /**
     * Sets the number of readers. More than there are addresses stay idle.
     *
     * @param parallelism the number, 1 or more
     * @return this stream
     */
    public SampledStream<T> setParallelism(int parallelism) {
        source.setParallelism(parallelism);
        records.setParallelism(parallelism);
        return this;
    }

    /**
     * Sets the name under which savepoints keep the source's state.
     *
     * @param uid a name that no other operator of the job has
     * @return this stream
     */
    public SampledStream<T> uid(String uid) {
        source.uid(uid);
        records.uid(uid + "-records");
        return this;
    }

    private static final class Splitter<T>
            extends ProcessFunction<Either<T, WindowSummary>, T> implements ResultTypeQueryable<T> {
        private static final long serialVersionUID = 1;

        private final TypeInformation<T> type;

        private Splitter(TypeInformation<T> type) {
            this.type = type;
        }

        @Override
        public void processElement(
                Either<T, WindowSummary> element, Context context, Collector<T> out) {
            if (element.isLeft()) {
                out.collect(element.left());
            } else {
                context.output(WINDOWS, element.right());
            }
        }

        @Override
        public TypeInformation<T> getProducedType() {
            return type;
        }
    }
}
